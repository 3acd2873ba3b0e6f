package filter

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/route"
)

// The mark of a request: its origin, as the policy judges it.
const (
	corsSameOrigin int64 = iota // no Origin: there is nothing to allow
	corsAllowed
	corsRefused
	corsPreflight // a preflight, whose local response is complete
)

// cors decides alone which origins may read the responses: the headers of a backend
// are replaced, or removed for an origin that is not allowed (Fetch standard, CORS
// protocol).
type cors struct {
	any         bool
	origins     map[string]bool
	expressions []*regexp.Regexp
	mark        int
	// allowOrigin is the pattern of the header, with * for its value.
	allowOrigin h1.Edit
	// marked follows it in a response, preflight in the response to a preflight.
	marked, preflight []h1.Edit
	// refused goes into a response for an origin that is not allowed, vary into
	// every response, because they differ by origin.
	refused, vary []h1.Edit
	// echoMethod and echoHeaders are the patterns of the headers in a preflight's
	// response that repeat what was requested, nil for none: with credentials,
	// browsers read * as a name.
	echoMethod, echoHeaders *h1.Edit
	// notAllowed is the response to the preflight of an origin that is not allowed.
	notAllowed *LocalResponse
}

func newCORS(a *route.CORS, mark int) (*cors, error) {
	f := &cors{mark: mark, any: slices.Contains(a.AllowOrigins, "*"), origins: make(map[string]bool)}
	if f.any && a.AllowCredentials {
		return nil, invalid("allowCredentials", "browsers refuse credentials for all origins; list the origins")
	}
	for _, origin := range a.AllowOrigins {
		// Browsers write origins in lower case.
		f.origins[strings.ToLower(origin)] = true
	}
	for i, expression := range a.AllowOriginRegexps {
		compiled, err := regexp.Compile(`\A(?:` + expression + `)\z`)
		if err != nil {
			return nil, invalid(fmt.Sprintf("allowOriginRegexps[%d]", i), "not a regular expression in RE2 syntax: %v", err)
		}
		f.expressions = append(f.expressions, compiled)
	}
	return f, f.prepare(a)
}

// prepare makes the headers once, so that a request only fills in its origin.
func (f *cors) prepare(a *route.CORS) error {
	var list editList
	f.allowOrigin = list.set("Access-Control-Allow-Origin", "*")
	f.refused = []h1.Edit{list.remove("Access-Control-Allow-Origin"), list.remove("Access-Control-Allow-Credentials")}
	if !f.any {
		f.vary = []h1.Edit{list.add("Vary", "Origin")}
	}
	credentials := list.remove("Access-Control-Allow-Credentials")
	if a.AllowCredentials {
		credentials = list.set("Access-Control-Allow-Credentials", "true")
	}
	f.marked, f.preflight = []h1.Edit{credentials}, []h1.Edit{credentials}
	if len(a.ExposeHeaders) > 0 {
		f.marked = append(f.marked, list.set("Access-Control-Expose-Headers", strings.Join(a.ExposeHeaders, ", ")))
	}
	// Browsers read them in the response to the request itself; here they are for
	// tools that ask with a preflight.
	f.preflight = append(f.preflight, f.marked[1:]...)
	allow := func(name string, values []string) (echo *h1.Edit) {
		if len(values) == 0 {
			return nil
		}
		switch edit := list.set(name, strings.Join(values, ", ")); {
		case a.AllowCredentials && slices.Contains(values, "*"):
			return &edit
		default:
			f.preflight = append(f.preflight, edit)
		}
		return nil
	}
	f.echoMethod = allow("Access-Control-Allow-Methods", a.AllowMethods)
	f.echoHeaders = allow("Access-Control-Allow-Headers", a.AllowHeaders)
	if a.MaxAge > 0 {
		seconds := int64(time.Duration(a.MaxAge) / time.Second)
		f.preflight = append(f.preflight, list.set("Access-Control-Max-Age", strconv.FormatInt(seconds, 10)))
	}
	f.preflight = append(f.preflight, f.vary...)
	f.notAllowed = &LocalResponse{Status: 204, Edits: f.vary, Reason: "OriginRefused"}
	return list.err
}

// Request implements [Filter].
func (f *cors) Request(x *Exchange) *LocalResponse {
	origin, sent := x.Head.Get(normalize.FieldOrigin)
	if !sent {
		return nil
	}
	x.Marks[f.mark] = corsRefused
	if f.allows(x, origin) {
		x.Marks[f.mark] = corsAllowed
	}
	if x.Head.MethodID != h1.MethodOptions {
		return nil
	}
	if _, preflight := x.Head.Find("Access-Control-Request-Method"); !preflight {
		return nil
	}
	allowed := x.Marks[f.mark] == corsAllowed
	x.Marks[f.mark] = corsPreflight
	if !allowed {
		return f.notAllowed
	}
	local := x.respond(204, "Preflight")
	x.memory.edits = append(f.appendOrigin(x.memory.edits, origin), f.preflight...)
	x.memory.edits = appendEcho(x.memory.edits, f.echoMethod, x.Head, "Access-Control-Request-Method")
	x.memory.edits = appendEcho(x.memory.edits, f.echoHeaders, x.Head, "Access-Control-Request-Headers")
	local.Edits = x.memory.edits
	return local
}

// Response implements [ResponseFilter].
func (f *cors) Response(x *Exchange, _ int) {
	mark := x.Marks[f.mark]
	if mark == corsPreflight {
		return
	}
	x.ResponseEdits = append(x.ResponseEdits, f.vary...)
	switch {
	case f.any, mark == corsAllowed:
		// With * every response is the same, so a cache can keep it for all.
		origin, _ := x.Head.Get(normalize.FieldOrigin)
		x.ResponseEdits = append(f.appendOrigin(x.ResponseEdits, origin), f.marked...)
	case mark == corsRefused:
		x.ResponseEdits = append(x.ResponseEdits, f.refused...)
	}
}

// allows reports whether an origin may read the responses. Two Origin headers are
// refused: they are ambiguous.
func (f *cors) allows(x *Exchange, origin []byte) bool {
	if f.any {
		return true
	}
	if _, once := onlyField(x.Head, "Origin"); !once {
		return false
	}
	if f.origins[string(origin)] {
		return true
	}
	return slices.ContainsFunc(f.expressions, func(expression *regexp.Regexp) bool { return expression.Match(origin) })
}

// appendOrigin appends the header that allows an origin. It may share the bytes of
// the request's head, which stays in place until the response has been sent.
func (f *cors) appendOrigin(edits []h1.Edit, origin []byte) []h1.Edit {
	edit := f.allowOrigin
	if !f.any {
		var err error
		if edit, err = edit.With(normalize.View(origin)); err != nil {
			// A value that was received can be sent, so this does not happen; it would
			// fail closed.
			return append(edits, f.refused...)
		}
	}
	return append(edits, edit)
}

// appendEcho appends a header with the value that one of the request has.
func appendEcho(edits []h1.Edit, pattern *h1.Edit, head *h1.Head, name string) []h1.Edit {
	if pattern == nil {
		return edits
	}
	requested, found := head.Find(name)
	edit, err := pattern.With(normalize.View(requested))
	if !found || err != nil {
		return edits
	}
	return append(edits, edit)
}

// editList makes edits and keeps the first error.
type editList struct{ err error }

func (l *editList) note(edit h1.Edit, err error) h1.Edit {
	if l.err == nil {
		l.err = err
	}
	return edit
}

func (l *editList) set(name, value string) h1.Edit { return l.note(h1.SetField(name, value)) }
func (l *editList) add(name, value string) h1.Edit { return l.note(h1.AddField(name, value)) }
func (l *editList) remove(name string) h1.Edit     { return l.note(h1.RemoveField(name)) }
