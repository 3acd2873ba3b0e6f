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

// What CORS found out about a request, in its mark.
const (
	corsSameOrigin int64 = iota // no Origin: there is nothing to allow
	corsAllowed
	corsRefused
	corsAnswered // a preflight, answered in full
)

// cors decides alone who may read the answers: what a backend says about it is
// replaced, or removed for an origin that is not allowed.
type cors struct {
	any         bool
	origins     map[string]bool
	expressions []*regexp.Regexp
	mark        int
	// allowOrigin is the pattern of the header, with * for its value.
	allowOrigin h1.Edit
	// marked follows it in an answer, preflight in the answer to a preflight.
	marked, preflight []h1.Edit
	// refused goes into an answer for an origin that is not allowed, vary into
	// every answer, since it differs from origin to origin.
	refused, vary []h1.Edit
	// notAllowed answers the preflight of an origin that is not allowed.
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

// prepare makes the headers.
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
	if len(a.AllowMethods) > 0 {
		f.preflight = append(f.preflight, list.set("Access-Control-Allow-Methods", strings.Join(a.AllowMethods, ", ")))
	}
	if len(a.AllowHeaders) > 0 {
		f.preflight = append(f.preflight, list.set("Access-Control-Allow-Headers", strings.Join(a.AllowHeaders, ", ")))
	}
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
	x.Marks[f.mark] = corsAnswered
	if !allowed {
		return f.notAllowed
	}
	answer := x.respond(204, "Preflight")
	x.memory.edits = append(f.appendOrigin(x.memory.edits, origin), f.preflight...)
	answer.Edits = x.memory.edits
	return answer
}

// Response implements [ResponseFilter].
func (f *cors) Response(x *Exchange, _ int) {
	mark := x.Marks[f.mark]
	if mark == corsAnswered {
		return
	}
	x.ResponseEdits = append(x.ResponseEdits, f.vary...)
	switch {
	case f.any, mark == corsAllowed:
		// With * every answer is the same, so a cache can keep it for all.
		origin, _ := x.Head.Get(normalize.FieldOrigin)
		x.ResponseEdits = append(f.appendOrigin(x.ResponseEdits, origin), f.marked...)
	case mark == corsRefused:
		x.ResponseEdits = append(x.ResponseEdits, f.refused...)
	}
}

// allows reports whether an origin may read the answers. Two origins are none.
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
	for _, expression := range f.expressions {
		if expression.Match(origin) {
			return true
		}
	}
	return false
}

// appendOrigin appends the header that lets origin in. The header of the
// request stays in place until its answer has been sent.
func (f *cors) appendOrigin(edits []h1.Edit, origin []byte) []h1.Edit {
	edit := f.allowOrigin
	if !f.any {
		var err error
		if edit, err = edit.With(normalize.View(origin)); err != nil {
			// A value that was received can be sent; without it nobody is let in.
			return append(edits, f.refused...)
		}
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
