package annotation

import (
	"fmt"
	"reflect"
	"strings"
	"unicode"

	"slipway.dev/slipway/api/declare"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/api/v1alpha1"
)

// filterOrder is the order in which requests pass the filters of annotations. Access
// control comes first and is cheap; then the named Middlewares; then changes of
// requests and responses, and at last the filters about the backend.
func filterOrder() (before, after []string) {
	return []string{
			"redirectScheme", "redirectRegexp", "ipFilter", "cors", "rateLimit", "inFlight", "bodyLimit",
			"basicAuth", "forwardAuth", "forwardCertificate", "waf",
		}, []string{
			"errorPages", "compression", "responseHeaders", "requestHeaders",
			"stripPrefix", "stripPrefixRegexp", "replacePath", "replacePathRegexp", "addPrefix",
			"buffering", "retry", "circuitBreaker", "mirror",
		}
}

// filterFields returns the filters that annotations can set, by name.
func filterFields() map[string]declare.Field {
	fields := map[string]declare.Field{}
	for _, field := range declare.Fields(reflect.TypeFor[v1alpha1.Filter]()) {
		if field.Tag.Get("inline") != "false" {
			fields[field.Name] = field
		}
	}
	return fields
}

// filterKeys returns the keys of the filters, in the order in which they apply.
func filterKeys() []*key {
	fields := filterFields()
	before, after := filterOrder()
	var keys []*key
	for _, name := range append(before, after...) {
		field := fields[name]
		keys = append(keys, &key{
			name: filterKey(name), closes: true,
			meaning: field.Description, form: filterForm(field), otherwise: "off", example: field.Tag.Get("example"),
			read: filterReader(field),
		})
	}
	return keys
}

// filterKey is the annotation of a filter: stripPrefix is strip-prefix there.
func filterKey(name string) string {
	var key strings.Builder
	key.WriteString(ownPrefix)
	for _, c := range name {
		if unicode.IsUpper(c) {
			key.WriteByte('-')
		}
		key.WriteRune(unicode.ToLower(c))
	}
	return key.String()
}

// filterForm returns the format of a filter for the reference page.
func filterForm(field declare.Field) string {
	form := "YAML"
	if shortened, ok := reflect.New(field.Type.Elem()).Interface().(declare.Shortened); ok {
		form += ", or short: " + shortened.ShortForm()
	} else if short := field.Tag.Get("short"); short != "" {
		form += ", or short: the value of `" + short + "`"
	}
	return form
}

// filterReader parses a filter. The value false disables it, as a template with
// a switch writes it. The reflection sets the one field of a Filter that the
// key stands for, so that a new filter in v1alpha1 needs no code here.
func filterReader(field declare.Field) func(*reading, place, string) {
	short := field.Tag.Get("short")
	return func(r *reading, at place, text string) {
		text = strings.TrimSpace(text)
		if text == "false" {
			return
		}
		target := reflect.New(field.Type.Elem())
		if problems := decode(text, short, target.Interface()); len(problems) > 0 {
			r.problems(at, problems)
			return
		}
		var filter v1alpha1.Filter
		reflect.ValueOf(&filter).Elem().FieldByIndex(field.Index).Set(target)
		r.filters[field.Name] = filter
	}
}

// inOrder returns the filters that were read and are in the list. The list
// decides the order; the annotations have none.
func (r *reading) inOrder(names []string) []v1alpha1.Filter {
	var filters []v1alpha1.Filter
	for _, name := range names {
		if filter, given := r.filters[name]; given {
			filters = append(filters, filter)
		}
	}
	return filters
}

// Place replaces the position in a fault of policy.Filters by the annotation of the
// Ingress: [1].basicAuth.secret becomes
// metadata.annotations[slipway.dev/basic-auth].secret.
func Place(filters []v1alpha1.Filter, fault refusal.Refusal) refusal.Refusal {
	var position int
	if _, err := fmt.Sscanf(fault.Field, "[%d]", &position); err != nil || position < 0 || position >= len(filters) {
		return fault
	}
	// The name of the filter is part of the annotation key now, and is cut from
	// the field.
	name := filters[position].Name()
	_, rest, _ := strings.Cut(fault.Field, "]")
	rest = strings.TrimPrefix(strings.TrimPrefix(rest, "."), name)
	fault.Field = strings.TrimPrefix(rest, ".")
	return *fault.At(fieldOf(filterKey(name)))
}
