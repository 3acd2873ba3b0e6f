package filter

import (
	"slices"
	"strconv"
	"strings"

	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/route"
)

// directiveAuth is the part of directives that belongs to the sub-request of an
// authRequest behind them.
type directiveAuth struct {
	steps   []directiveStep
	request []textHeader
	sets    []directiveStep
	// kept are the names of the headers of the response that sets read, as variables
	// spell them.
	kept []string
	// attached is set if there is such an authRequest. It sets the headers for the
	// backend, whose values can be those of the response.
	attached bool
}

// auth compiles the part of the sub-request. Headers with values of the response pass on
// the identity of the client, so no sub-request takes them from the client. Credentials
// are those that the server needs to see.
func (b *directiveBuilder) auth(d *route.Directives, c *compiler) (made *directiveAuth, err error) {
	if d.Auth == nil {
		return nil, nil
	}
	made = &directiveAuth{}
	if made.steps, err = b.steps("auth.steps", d.Auth.Steps); err != nil {
		return nil, err
	}
	if made.request, err = b.headers("auth.request", d.Auth.Request); err != nil {
		return nil, err
	}
	b.kept = &made.kept
	defer func() { b.kept = nil }()
	for i := range d.Auth.Set {
		step, err := b.step(&route.DirectiveStep{Set: &d.Auth.Set[i]})
		if err != nil {
			return nil, placed("auth.set["+strconv.Itoa(i)+"]", err)
		}
		made.sets = append(made.sets, step)
	}
	for i := range d.Request {
		header := &d.Request[i]
		if usesAny(header.Value, d.Auth.Set) && !strings.EqualFold(header.Name, "Authorization") && !strings.EqualFold(header.Name, "Cookie") {
			c.vouch(header.Name)
		}
	}
	return made, nil
}

// usesAny reports whether a text has one of the variables of sets.
func usesAny(text route.Text, sets []route.DirectiveSet) bool {
	return slices.ContainsFunc(text, func(part route.TextPart) bool {
		return slices.ContainsFunc(sets, func(set route.DirectiveSet) bool { return part.Variable != "" && part.Variable == set.Variable })
	})
}

// upstreamPart compiles a variable of the response of the authentication server.
func (b *directiveBuilder) upstreamPart(name string) (textPart, bool) {
	if b.kept == nil {
		return textPart{}, false
	}
	if name == "upstream_status" {
		return textPart{kind: partUpstreamStatus}, true
	}
	if rest, found := strings.CutPrefix(name, "upstream_cookie_"); found && rest != "" {
		return textPart{kind: partUpstreamCookie, name: rest}, true
	}
	rest, found := strings.CutPrefix(name, "upstream_http_")
	if !found || rest == "" {
		return textPart{}, false
	}
	number := slices.Index(*b.kept, rest)
	if number < 0 {
		number = len(*b.kept)
		*b.kept = append(*b.kept, rest)
	}
	return textPart{kind: partUpstreamHeader, number: number}, true
}

// state returns the state of a request, nil if the directives did not run for it.
func (f *directives) state(x *Exchange) *directiveState {
	if f == nil || x.memory.directives == nil || x.memory.directives.of != f {
		return nil
	}
	return x.memory.directives
}

// prepareAuth runs the steps of the sub-request, and returns its further headers. A
// status other than 0 is that of a return, which takes the place of the sub-request.
func (f *directives) prepareAuth(x *Exchange) (fields []Field, status int, local *LocalResponse) {
	s := f.state(x)
	if s == nil || f.auth == nil || len(f.auth.steps)+len(f.auth.request) == 0 {
		return nil, 0, nil
	}
	// The sub-request has no groups yet, and the request keeps its own.
	path, groups := x.Path, s.groups
	clear(s.groups[:])
	defer func() { x.Path, s.groups = path, groups }()
	if status, local = s.runAuth(f.auth.steps, x); status != 0 || local != nil {
		return nil, status, local
	}
	for i := range f.auth.request {
		header := &f.auth.request[i]
		work, fits := s.evaluate(x.memory.work[:0], x, header.value)
		x.memory.work = work
		if !fits {
			return nil, 0, valueTooLong
		}
		if work = spaceless(work); len(work) == 0 {
			continue
		}
		value := x.keep(work)
		if _, err := header.set.With(value); err != nil {
			return nil, 0, badHeader
		}
		fields = append(fields, Field{header.name, value})
	}
	return fields, 0, nil
}

// runAuth runs the steps of the sub-request, until one returns a status.
func (s *directiveState) runAuth(steps []directiveStep, x *Exchange) (status int, local *LocalResponse) {
	for i := 0; i < len(steps); i++ {
		step := &steps[i]
		switch step.kind {
		case stepIf:
			holds, fits := s.holds(step, x)
			if !fits {
				return 0, valueTooLong
			}
			if !holds {
				i += step.skip
			}
		case stepSet:
			if local := s.set(step, x); local != nil {
				return 0, local
			}
		case stepReturn:
			return step.status, nil
		}
	}
	return 0, nil
}

// setsAuth reports whether a header of the sub-request is one of the directives.
func (f *directives) setsAuth(name []byte) bool {
	return f != nil && f.auth != nil && slices.ContainsFunc(f.auth.request, func(header textHeader) bool {
		return normalize.SameField(name, normalize.Bytes(header.name))
	})
}

// keptNames are the headers of the response that variables need.
func (f *directives) keptNames() []string {
	if f == nil || f.auth == nil {
		return nil
	}
	return f.auth.kept
}

// setAuth gives variables the values of a decision. Sent is set if a response of the
// server is behind it, and not the cache or a return.
func (f *directives) setAuth(x *Exchange, decision *authDecision, sent bool) *LocalResponse {
	s := f.state(x)
	if s == nil || f.auth == nil {
		return nil
	}
	path := x.Path
	s.decision, s.sent = decision, sent
	defer func() { x.Path, s.decision = path, nil }()
	for i := range f.auth.sets {
		if local := s.set(&f.auth.sets[i], x); local != nil {
			return local
		}
	}
	return nil
}

// admit sets the headers for the backend, which waited for the values of the response.
func (f *directives) admit(x *Exchange) *LocalResponse {
	s := f.state(x)
	if s == nil || f.auth == nil {
		return nil
	}
	return f.setRequest(s, x)
}

// replaces reports whether a condition that holds replaces the headers that the location
// adds, those of authentication included. The redirect to a sign-in page has its own.
func (f *directives) replaces(x *Exchange) bool {
	s := f.state(x)
	return s != nil && !s.signin && s.active != nil && len(s.active.add) > 0
}

// appendUpstream appends a value of the decision. There is none in most of a request.
func (s *directiveState) appendUpstream(dst []byte, part *textPart) []byte {
	d := s.decision
	switch {
	case d == nil:
		return dst
	case part.kind == partUpstreamHeader:
		if part.number < len(d.kept) {
			dst = append(dst, d.kept[part.number]...)
		}
	case part.kind == partUpstreamCookie:
		return appendSetCookie(dst, d.cookies, part.name)
	case s.sent:
		return strconv.AppendInt(dst, int64(d.status), 10)
	}
	return dst
}

// appendSetCookie appends the value of the first cookie of a name, in any case, as nginx
// reads lines of Set-Cookie.
func appendSetCookie(dst []byte, lines []string, name string) []byte {
	for _, line := range lines {
		if len(line) <= len(name) || !strings.EqualFold(line[:len(name)], name) {
			continue
		}
		value, found := strings.CutPrefix(strings.TrimLeft(line[len(name):], " "), "=")
		if !found {
			continue
		}
		value, _, _ = strings.Cut(strings.TrimLeft(value, " "), ";")
		return append(dst, value...)
	}
	return dst
}

// namesHeader reports whether a variable names a header: in lower case, with an
// underscore for each hyphen.
func namesHeader(variable string, name []byte) bool {
	if len(variable) != len(name) {
		return false
	}
	for i, c := range name {
		switch {
		case c == '-':
			c = '_'
		case c >= 'A' && c <= 'Z':
			c |= 0x20
		}
		if c != variable[i] {
			return false
		}
	}
	return true
}
