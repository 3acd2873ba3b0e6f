package traefik

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"slipway.dev/slipway/api/declare"
	"slipway.dev/slipway/internal/ingress/reference"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// Support is what becomes of a field.
type Support string

// The supports, in the order in which a later one replaces an earlier one.
const (
	Read     Support = "read"
	NoEffect Support = "no effect"
	Refused  Support = "refused"
)

// Field is a field of a Middleware. The converters are the declaration: what they take,
// ignore and refuse of an empty object is all that they know.
type Field struct {
	// Middleware is its kind, and Path the field in it.
	Middleware, Path string
	Support          Support
	// Advice is what to do instead of a refused field.
	Advice string
}

// MiddlewareKinds returns the kinds of Middlewares, in the order of the page: those that are
// converted, then those that are refused.
func MiddlewareKinds() (converted, refused []string) {
	for kind := range unsupportedKinds {
		refused = append(refused, kind)
	}
	slices.Sort(refused)
	converted = []string{
		"addPrefix", "stripPrefix", "stripPrefixRegex", "replacePath", "replacePathRegex", "redirectRegex", "redirectScheme", "chain", "headers",
		"ipAllowList", "ipWhiteList", "basicAuth", "forwardAuth", "rateLimit", "inFlightReq", "buffering", "circuitBreaker", "compress", "retry",
		"errors", "passTLSClientCert", "contentType",
	}
	// A new one is on the page even if it has no place here.
	for _, kind := range slices.Sorted(maps.Keys((&step{}).converters())) {
		if !slices.Contains(converted, kind) {
			converted = append(converted, kind)
		}
	}
	return converted, refused
}

// limits has what the converters refuse of the values of a kind, for the page.
var limits = map[string]string{
	"replacePath":      "a query in the path",
	"replacePathRegex": "a query, a group that is not there",
	"redirectRegex":    "a group that is not there",
	"chain":            "more than 4 levels, more than 64 Middlewares, a provider in a name",
	"headers":          "the request header `Host`, `accessControl*` without an origin, `$NONCE`",
	"ipAllowList":      "`rejectStatusCode` below 400",
	"ipWhiteList":      "as `ipAllowList`",
	"forwardAuth":      "an address that is no Service, `forwardBody` without `maxBodySize`",
	"rateLimit":        "`ipv6Subnet` other than 64",
	"inFlightReq":      "`ipv6Subnet` other than 64",
	"buffering":        "neither of the two limits",
	"circuitBreaker":   "other expressions than those below, a `responseCode` other than 503",
	"retry":            "more than 10 attempts, a `status` below 400, `maxRequestBodyBytes` above 0",
	"errors":           "`{url}` and a query in `query`, a TraefikService",
	"contentType":      "everything but `autoDetect: false`: content types are not guessed",
}

// fieldsOf converts an empty Middleware, and returns the fields that its converter knows.
func fieldsOf(kind string) []Field {
	known := map[string]Field{}
	order := []string{}
	found := &findings{trace: func(path string, support Support, advice string) {
		if _, before := known[path]; !before {
			order = append(order, path)
		}
		if before := known[path]; before.Support == "" || before.Support == Read {
			known[path] = Field{Middleware: kind, Path: path, Support: support, Advice: advice}
		}
	}}
	object := &snapshot.Resource{Kind: snapshot.TraefikMiddleware, Namespace: "default", Name: "empty"}
	step := &step{findings: found, walk: &walk{}, object: object, source: reference.Source{View: snapshot.New().View(), Namespace: "default"}}
	r := newRecord("", map[string]any{}, found)
	if kind == "chain" {
		step.chain(r)
	} else {
		step.read(kind, &record{path: "", fields: map[string]any{kind: map[string]any{}}, taken: map[string]bool{}, found: found})
	}
	var fields []Field
	for _, path := range order {
		name := strings.TrimPrefix(strings.TrimPrefix(path, "."+kind), ".")
		inside := slices.ContainsFunc(order, func(other string) bool { return strings.HasPrefix(other, path+".") })
		// An object stands for its fields.
		if name == "" || inside {
			continue
		}
		field := known[path]
		field.Path = name
		fields = append(fields, field)
	}
	return fields
}

// WriteTables returns a page with the table of Middlewares between its marks, which are
// comments of Markdown.
func WriteTables(page []byte) ([]byte, error) {
	begin, end := []byte("<!-- middlewares: written by make generate -->\n"), []byte("<!-- end of middlewares -->\n")
	before, rest, found := bytes.Cut(page, begin)
	_, after, ended := bytes.Cut(rest, end)
	if !found || !ended {
		return nil, fmt.Errorf("the page has no marks of the table of Middlewares: %s%s", begin, end)
	}
	return slices.Concat(before, begin, []byte("\n"+middlewareTable()+"\n"), end, after), nil
}

// middlewareTable writes a row for each kind.
func middlewareTable() string {
	var page declare.Page
	page.Table("Middleware", "Read", "No effect", "Refused")
	kinds, refused := MiddlewareKinds()
	for _, kind := range kinds {
		names := map[Support][]string{}
		fields := fieldsOf(kind)
		for _, field := range fields {
			names[field.Support] = append(names[field.Support], declare.Code(field.Path))
		}
		page.Row(declare.Code(kind), strings.Join(names[Read], ", "), strings.Join(names[NoEffect], ", "), refusedCell(kind, fields))
	}
	for _, kind := range refused {
		page.Row(declare.Code(kind), "", "", cmp.Or(unsupportedKinds[kind], "always"))
	}
	return page.String()
}

// refusedCell lists the refused fields with what to do, and the refused values.
func refusedCell(kind string, fields []Field) string {
	var parts []string
	for i, field := range fields {
		switch {
		case field.Support != Refused:
		case i > 0 && fields[i-1].Advice == field.Advice:
			last := &parts[len(parts)-1]
			names, advice, _ := strings.Cut(*last, ": ")
			*last = names + ", " + declare.Code(field.Path) + ": " + advice
		default:
			parts = append(parts, declare.Code(field.Path)+": "+field.Advice)
		}
	}
	if limit := limits[kind]; limit != "" {
		parts = append(parts, limit)
	}
	return strings.Join(parts, "; ")
}
