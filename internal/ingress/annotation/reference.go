package annotation

import (
	"fmt"
	"io"
	"reflect"
	"strings"

	"slipway.dev/slipway/api/declare"
	"slipway.dev/slipway/api/v1alpha1"
)

// WriteReference writes the reference page of annotations and our kinds,
// generated from the tables of keys and the declared structs. Its output
// depends on the declarations only, so a test can compare it with the page in
// docs.
func WriteReference(w io.Writer) error {
	p := &page{}
	p.WriteString(introduction)
	both := declared()
	p.keys(both.ingress, "## On an Ingress", ownPrefix, false)
	p.filters(both.ingress)
	p.keys(both.service, "## On a Service", ownPrefix, false)
	p.heading("### Fields of `slipway.dev/sticky-cookie`")
	p.fields(reflect.TypeFor[v1alpha1.StickyCookie]())
	p.heading("### Fields of `slipway.dev/health-check`")
	p.fields(reflect.TypeFor[v1alpha1.HealthCheck]())
	p.WriteString(traefikIntroduction)
	p.keys(both.ingress, "### On an Ingress", traefikPrefix, true)
	p.keys(both.service, "### On a Service", traefikPrefix, true)
	p.kinds()
	p.heading("## Parts of several filters")
	for _, part := range []reflect.Type{reflect.TypeFor[v1alpha1.ServiceRef](), reflect.TypeFor[v1alpha1.RequestKey](), reflect.TypeFor[v1alpha1.HeaderValue]()} {
		p.heading("### " + part.Name())
		p.fields(part)
	}
	_, err := io.WriteString(w, p.String())
	return err
}

// introduction precedes the tables. The bounds in it repeat those of package
// declare.
const introduction = `<!-- Written by ` + "`make generate`" + `. Change the declarations in api/v1alpha1 and internal/ingress/annotation, not this page. -->

# Annotations and kinds

Annotations of an Ingress apply to all its rules; those of a Service to all requests that are sent to it. A setting that has
two spellings, Slipway's and Traefik's, may use both with the same value.

An annotation with an error is never ignored: it produces an Event on its object. Where it would be wrong to serve without the
annotation, the error also closes the object: the edge responds with 503 to requests for the rules of the Ingress or for the Service.
The column *Closes* shows these annotations. Unknown annotations close the object too: those under ` + "`slipway.dev/`" + `, and
Traefik's ` + "`router.`" + ` on an Ingress and ` + "`service.`" + ` on a Service. An annotation on the wrong kind of object also produces an
Event; it closes the object if it is one of Slipway's and closes the right kind of object.

A value is a short form or YAML: it is YAML when it starts with ` + "`{`, `[` or `- `" + `, when it starts with the name of a field and
a colon, or when it has several lines. A value has at most 64 KiB, and no anchors, aliases or tags. An unknown field is an error.

`

// traefikIntroduction precedes the tables of Traefik's keys.
const traefikIntroduction = `## Traefik's annotations

Slipway reads them as Traefik does, case-insensitively, so that an Ingress can move without changes. A setting of Traefik that
Slipway does not support produces an Event with the alternative. ` + "`router.*`" + ` on a Service and ` + "`service.*`" + ` on an Ingress
have no effect, as in Traefik, and produce an Event.

`

// page builds the Markdown of the reference in memory, so that only the last
// write returns an error.
type page struct{ declare.Page }

func (p *page) heading(text string) { p.WriteString(text + "\n\n") }

// keys writes the table of the keys with a prefix. Filters are left out; they
// have a section of their own. short cuts the prefix from the names.
func (p *page) keys(o *object, heading, prefix string, short bool) {
	p.heading(heading)
	p.Table("Annotation", "Meaning", "Form", "Default", "Closes", "Example")
	inline := map[string]bool{}
	for name := range filterFields() {
		inline[filterKey(name)] = true
	}
	for _, k := range o.keys {
		rest, found := strings.CutPrefix(k.name, prefix)
		if !found || inline[k.name] {
			continue
		}
		if !short {
			rest = k.name
		}
		closes := "no"
		if k.closes {
			closes = "yes"
		}
		p.Row(declare.Code(rest), k.meaning, k.form, k.otherwise, closes, declare.Code(k.example))
	}
	p.WriteString("\n")
}

// filters writes the filters, in their order, and the fields of each.
func (p *page) filters(o *object) {
	p.heading("### Filters")
	p.WriteString("Each filter has an annotation, which closes the Ingress when it has an error; the value `false` disables it. " +
		"Annotations have no order, so requests pass the filters in this one:\n\n")
	before, after := filterOrder()
	number := 0
	line := func(text string) {
		number++
		p.Printf("%d. %s\n", number, text)
	}
	for _, name := range before {
		line(fmt.Sprintf("[`%s`](#%s)", filterKey(name), anchor(name)))
	}
	line("the Middlewares that `router.middlewares` and then `slipway.dev/middlewares` name, in their order")
	for _, name := range after {
		line(fmt.Sprintf("[`%s`](#%s)", filterKey(name), anchor(name)))
	}
	p.WriteString("\nFor another order, use a [Middleware](#middleware), whose filters are a list.\n\n")
	fields := filterFields()
	for _, name := range append(before, after...) {
		field := fields[name]
		k := o.byName[filterKey(name)]
		p.heading("#### " + name)
		p.Printf("%s Form: %s.\n\n```yaml\n%s: %s\n```\n\n", field.Description, k.form, k.name, quoted(k.example))
		p.fields(field.Type.Elem())
	}
}

// kinds writes the fields of our kinds.
func (p *page) kinds() {
	p.heading("## Kinds")
	p.WriteString("Objects of `" + v1alpha1.Group + "/" + v1alpha1.Version + "`. They reference objects of the same namespace by name, and those of other " +
		"namespaces by `namespace/name` if the option `allowCrossNamespace` allows it.\n\n")
	for _, kind := range v1alpha1.Kinds() {
		p.heading("### " + kind.Name)
		p.WriteString(kind.Description + " Fields of its spec:\n\n")
		p.fields(kind.Spec)
		if kind.Spec == reflect.TypeFor[v1alpha1.MiddlewareSpec]() {
			p.WriteString(middlewareExample)
			p.heading("#### chain")
			p.fields(reflect.TypeFor[v1alpha1.Chain]())
			continue
		}
		p.parts(kind.Spec, "")
	}
}

// parts writes the fields of the structs in a struct, each below the path that leads to
// it. Scalars have no fields.
func (p *page) parts(of reflect.Type, path string) {
	for _, field := range declare.Fields(of) {
		part := field.Type
		for part.Kind() == reflect.Pointer || part.Kind() == reflect.Slice {
			part = part.Elem()
		}
		if _, scalar := reflect.New(part).Interface().(declare.Scalar); scalar || part.Kind() != reflect.Struct {
			continue
		}
		p.heading("#### " + path + field.Name)
		p.fields(part)
		p.parts(part, path+field.Name+".")
	}
}

// middlewareExample follows the fields of a Middleware.
const middlewareExample = `A filter has one field: the name of one of the [filters](#filters) above with its fields, or ` + "`chain`" + `, which
inserts the filters of other Middlewares.

` + "```yaml" + `
apiVersion: slipway.dev/v1alpha1
kind: Middleware
metadata:
  name: secured
spec:
  filters:
    - ipFilter:
        allow: [10.0.0.0/8]
    - basicAuth:
        secret: users
` + "```" + `

`

// fields writes the table of a struct.
func (p *page) fields(of reflect.Type) {
	p.Table("Field", "Type", "Meaning", "Default")
	for _, field := range declare.Fields(of) {
		form := typeName(&field)
		if field.Required {
			form += ", required"
		}
		p.Row(declare.Code(field.Name), form, field.Description, declare.Code(field.Default))
	}
	p.WriteString("\n")
}

// typeName returns the format of a field with its values or bounds.
func typeName(field *declare.Field) string {
	text := plainType(field.Type)
	switch {
	case len(field.Enum) > 0 && field.Type.Kind() == reflect.Slice:
		return "list of `" + strings.Join(field.Enum, "`, `") + "`"
	case len(field.Enum) > 0:
		return "one of `" + strings.Join(field.Enum, "`, `") + "`"
	case field.Minimum != nil && field.Maximum != nil:
		text += fmt.Sprintf(" from %d to %d", *field.Minimum, *field.Maximum)
	case field.Minimum != nil:
		text += fmt.Sprintf(" from %d", *field.Minimum)
	}
	return text
}

// plainType returns the format of a type without its bounds. A Scalar has its
// own description and comes first, as in package declare.
func plainType(of reflect.Type) string {
	if scalar, ok := reflect.New(of).Interface().(declare.Scalar); ok {
		return scalar.Form().Name
	}
	switch of.Kind() {
	case reflect.Pointer:
		return plainType(of.Elem())
	case reflect.Slice:
		return "list of " + strings.TrimPrefix(plainType(of.Elem()), "list of ")
	case reflect.Map:
		return "names and values"
	case reflect.Struct:
		return partName(of)
	case reflect.Bool:
		return "true or false"
	case reflect.Int32, reflect.Int64:
		return "whole number"
	default:
		return "text"
	}
}

// partName links to the table of a struct that several filters share. Other
// structs have their table right below the field.
func partName(of reflect.Type) string {
	switch of {
	case reflect.TypeFor[v1alpha1.Filter]():
		return "[filters](#filters)"
	case reflect.TypeFor[v1alpha1.ServiceRef](), reflect.TypeFor[v1alpha1.RequestKey](), reflect.TypeFor[v1alpha1.HeaderValue]():
		return "[" + of.Name() + "](#" + anchor(of.Name()) + ")"
	default:
		return "fields below"
	}
}

// anchor returns the fragment that Markdown renderers make of a heading.
func anchor(heading string) string { return strings.ToLower(heading) }

// quoted returns a value as it is written in the YAML of an Ingress, always a string.
func quoted(value string) string {
	if strings.ContainsAny(value, `"\`) {
		return "'" + strings.ReplaceAll(value, "'", "''") + "'"
	}
	return `"` + value + `"`
}
