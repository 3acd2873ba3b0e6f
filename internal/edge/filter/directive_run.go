package filter

import (
	"bytes"
	"net/http"
	"slices"

	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/route"
)

// directiveState is what directives keep for one request. The Exchange has it from the
// first request with directives on, and uses it again.
type directiveState struct {
	// of is the filter that the values are of. It starts with them again if its rule
	// matches the rewritten path, too.
	of     *directives
	values []string
	groups [10]string
	// active is the last condition that held, nil for none.
	active *directiveResponse
	// path is the path while steps run, moved reports that it must be matched again.
	path  []byte
	moved bool
	// query reports that the query is not that of the client, server that the steps of
	// the server run, or have ended the request.
	query, server bool
	// signin reports that the response is a redirect to a sign-in page.
	signin bool
	// decision is that of the authentication server while variables get its values,
	// sent is set if its response is a new one.
	decision *authDecision
	sent     bool
}

// begin returns the state of a request.
func (f *directives) begin(x *Exchange) *directiveState {
	s := x.memory.directives
	if s == nil {
		s = new(directiveState)
		x.memory.directives = s
	}
	if s.of != f || x.rewritten.restarts == 0 {
		s.take(f, x.rewritten.restarts > 0)
	}
	s.active, s.moved, s.query, s.server, s.signin = nil, false, false, false, false
	s.path = append(s.path[:0], x.Path...)
	return s
}

// take prepares the state for another rule. A request that is matched again keeps its
// groups and the variables with the same names, as in nginx, if they are of the same
// namespace.
func (s *directiveState) take(f *directives, again bool) {
	before := *s
	values := before.values
	if again || cap(values) < len(f.names) {
		values = make([]string, len(f.names))
	}
	*s = directiveState{of: f, values: values[:len(f.names)], path: before.path[:0]}
	clear(s.values)
	if !again || before.of == nil {
		return
	}
	s.groups = before.groups
	if before.of.namespace != f.namespace {
		return
	}
	for slot, name := range f.names {
		if old := slices.Index(before.of.names, name); old >= 0 {
			s.values[slot] = before.values[old]
		}
	}
}

// setGroups keeps the groups of a match. Without one there are none, as in nginx.
func (s *directiveState) setGroups(match []int, text []byte, x *Exchange) {
	clear(s.groups[:])
	for i := 0; i < min(len(match)/2, len(s.groups)); i++ {
		if match[2*i] >= 0 {
			s.groups[i] = x.keep(text[match[2*i]:match[2*i+1]])
		}
	}
}

// match reports whether a text matches, and keeps its groups.
func (s *directiveState) match(e *directiveExpression, text []byte, x *Exchange) bool {
	match := e.expression.FindSubmatchIndex(text)
	if s.setGroups(match, text, x); match == nil {
		return false
	}
	for group, slot := range e.slots {
		if slot >= 0 {
			s.values[slot] = ""
			if match[2*group] >= 0 {
				s.values[slot] = x.keep(text[match[2*group]:match[2*group+1]])
			}
		}
	}
	return true
}

// Slow implements [SlowFilter]: there may be hundreds of steps, and some send sub-requests.
func (f *directives) Slow() {}

// Request implements [Filter]. It runs the steps, and sets the headers for the backend
// when their values are known.
func (f *directives) Request(x *Exchange) *LocalResponse {
	if x.Head.URI.Asterisk {
		if s := x.memory.directives; s != nil {
			s.of = nil // its values are those of another request
		}
		if f.auth != nil {
			// No header of the client takes the place of one that authentication sets.
			for i := range f.request {
				x.RequestEdits = append(x.RequestEdits, f.request[i].remove)
			}
		}
		return nil
	}
	s := f.begin(x)
	if len(f.server) > 0 && x.rewritten.restarts == 0 {
		s.server = true
		if local := f.run(f.server, s, x); local != nil {
			return local
		}
		s.server = false
		if s.moved = !bytes.Equal(s.path, x.Head.URI.Path); s.moved {
			return f.finish(s, x)
		}
	}
	if f.groups != nil {
		s.setGroups(f.groups.FindSubmatchIndex(s.path), s.path, x)
	}
	if local := f.run(f.steps, s, x); local != nil {
		return local
	}
	if local := f.finish(s, x); local != nil {
		return local
	}
	if f.auth != nil && f.auth.attached {
		return nil // the authRequest sets the headers
	}
	return f.setRequest(s, x)
}

// run runs steps, until one ends the request. Each runs at most once.
func (f *directives) run(steps []directiveStep, s *directiveState, x *Exchange) *LocalResponse {
	for i := 0; i < len(steps); i++ {
		step := &steps[i]
		switch step.kind {
		case stepIf:
			holds, fits := s.holds(step, x)
			if !fits {
				return valueTooLong
			}
			if holds {
				s.active = step.response
			} else {
				i += step.skip
			}
		case stepSet:
			if local := s.set(step, x); local != nil {
				return local
			}
		case stepRewrite:
			done, local := f.rewrite(s, step, x)
			if local != nil {
				return local
			}
			if done {
				return nil
			}
		case stepReturn:
			return f.respond(s, step, x)
		case stepBreak:
			s.moved = false
			return nil
		}
	}
	return nil
}

// holds evaluates a condition.
func (s *directiveState) holds(step *directiveStep, x *Exchange) (holds, fits bool) {
	work, fits := s.evaluate(x.memory.work[:0], s.at(x), []textPart{step.variable})
	x.memory.work = work
	if !fits {
		return false, false
	}
	switch step.operator {
	case route.DirectiveHolds:
		return len(work) > 0 && string(work) != "0", true
	case route.DirectiveMatches:
		return s.match(step.match, work, x), true
	case route.DirectiveMatchesNo:
		return !s.match(step.match, work, x), true
	}
	n := len(work)
	work, fits = s.evaluate(work, x, step.text)
	x.memory.work = work
	return bytes.Equal(work[:n], work[n:]) == (step.operator == route.DirectiveEqual), fits
}

// at puts the path of the steps into the exchange, where variables read it.
func (s *directiveState) at(x *Exchange) *Exchange {
	x.Path = s.path
	return x
}

// set gives a variable its value.
func (s *directiveState) set(step *directiveStep, x *Exchange) *LocalResponse {
	work, fits := s.evaluate(x.memory.work[:0], s.at(x), step.text)
	x.memory.work = work
	switch {
	case !fits:
		return valueTooLong
	case step.slot == argsSlot:
		s.setQuery(x, work)
	default:
		s.values[step.slot] = x.keep(work)
	}
	return nil
}

// setQuery replaces the query. The text is copied, without bytes that would end the
// target early.
func (s *directiveState) setQuery(x *Exchange, text []byte) {
	start := len(x.memory.kept)
	x.memory.kept = appendEscaped(x.memory.kept, text)
	x.Query = x.memory.kept[start:len(x.memory.kept):len(x.memory.kept)]
	x.HasQuery, s.query = len(x.Query) > 0, true
}

// rewrite replaces a path that matches. It reports whether the steps are done.
func (f *directives) rewrite(s *directiveState, step *directiveStep, x *Exchange) (done bool, local *LocalResponse) {
	if !s.match(step.match, s.path, x) {
		return false, nil
	}
	to := step.rewrite
	work, fits := s.evaluate(x.memory.work[:0], s.at(x), step.text)
	end := len(work)
	if to.HasQuery && fits {
		work, fits = s.evaluate(work, x, step.query)
	}
	if !to.DropQuery && len(x.Query) > 0 {
		if to.HasQuery {
			work = append(work, '&')
		}
		work = append(work, x.Query...)
	}
	x.memory.work = work
	path, query := work[:end], work[end:]
	switch {
	case !fits || len(path) > len(x.Head.URI.Path)+maxGrowth:
		return true, valueTooLong
	case to.Redirect != 0:
		return true, f.redirectTo(x, to.Redirect, path, query, to.HasQuery)
	}
	s.path = append(s.path[:0], path...)
	if to.HasQuery || to.DropQuery {
		s.setQuery(x, query)
	}
	s.moved = to.Then != route.ThenServe
	return to.Then != "", nil
}

// redirectTo returns a redirect to a path or URL, with a query.
func (f *directives) redirectTo(x *Exchange, status int, url, query []byte, hasQuery bool) *LocalResponse {
	start := len(x.memory.kept)
	if len(url) > 0 && url[0] == '/' {
		if len(x.Head.URI.Host) == 0 {
			return noHost
		}
		x.memory.kept = append(append(x.memory.kept, schemeOf(x)...), "://"...)
		x.memory.kept = append(x.memory.kept, x.Head.URI.Host...)
	}
	x.memory.kept = appendEscaped(x.memory.kept, url)
	if hasQuery || len(query) > 0 {
		x.memory.kept = append(x.memory.kept, '?')
		x.memory.kept = appendEscaped(x.memory.kept, query)
	}
	edit, err := f.location.With(normalize.View(x.memory.kept[start:]))
	if err != nil {
		return badLocation
	}
	local := x.respond(status, "Redirect")
	x.memory.edits = append(x.memory.edits, edit)
	local.Edits = x.memory.edits
	return local
}

// respond returns the response of a return.
func (f *directives) respond(s *directiveState, step *directiveStep, x *Exchange) *LocalResponse {
	work, fits := s.evaluate(x.memory.work[:0], s.at(x), step.text)
	x.memory.work = work
	if !fits {
		return valueTooLong
	}
	switch step.status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		if step.hasText {
			return f.redirectTo(x, step.status, work, nil, false)
		}
	}
	local := x.respond(step.status, "Directive")
	if (step.hasText || step.status < 400) && step.status != http.StatusNoContent && step.status != http.StatusNotModified {
		local.Body, local.ContentType = normalize.Bytes(x.keep(work)), f.typeOf(s.path)
		s.setType(local, f.outer(s), x)
		if s.active != nil {
			s.setType(local, s.active, x)
		}
	}
	return local
}

// setType applies a change of the Content-Type to a local response, whose type is no
// line that an edit could replace.
func (s *directiveState) setType(local *LocalResponse, response *directiveResponse, x *Exchange) {
	for i := range response.change {
		header := &response.change[i]
		if header.name != "content-type" || !header.applies(local.Status) {
			continue
		}
		if value, fits := s.evaluate(x.memory.work[:0], x, header.value); fits {
			x.memory.work = value
			local.ContentType = x.keep(value)
		}
	}
}

// finish puts the path of the steps in place, and reports whether it must be matched
// again.
func (f *directives) finish(s *directiveState, x *Exchange) *LocalResponse {
	if s.query {
		x.rewritten.path = true
	}
	if !bytes.Equal(s.path, x.Head.URI.Path) || x.rewritten.path {
		if local := x.rewrite(s.path); local != nil {
			return local
		}
	}
	x.Path = s.path
	if x.rewritten.path {
		x.Path = x.memory.path
	}
	if !s.moved {
		return nil
	}
	if x.rewritten.restarts == maxRestarts {
		return rewriteLoop
	}
	return Rerouted
}

// setRequest sets the headers for the backend.
func (f *directives) setRequest(s *directiveState, x *Exchange) *LocalResponse {
	for i := range f.request {
		header := &f.request[i]
		work, fits := s.evaluate(x.memory.work[:0], x, header.value)
		x.memory.work = work
		if !fits {
			return valueTooLong
		}
		edit := header.remove
		if work = spaceless(work); len(work) > 0 {
			var err error
			if edit, err = header.set.With(x.keep(work)); err != nil {
				return badHeader
			}
		}
		x.RequestEdits = append(x.RequestEdits, edit)
	}
	return nil
}

// Response implements [ResponseFilter]. nginx hides headers of the backend first, then
// more_set_headers changes them, and add_header comes last. Added headers of a
// condition replace those of the location.
func (f *directives) Response(x *Exchange, status int) {
	s := x.memory.directives
	if s == nil || s.of != f {
		return // the request had no path
	}
	if s.signin {
		// It is another location in nginx, which has the changes of the server alone.
		s.change(f.serverResponse.change, x, status)
		return
	}
	if !x.rewritten.locally {
		x.ResponseEdits = append(x.ResponseEdits, f.hide...)
	}
	of := f.outer(s)
	s.change(of.change, x, status)
	add := of.add
	if s.active != nil {
		s.change(s.active.change, x, status)
		if len(s.active.add) > 0 {
			add = s.active.add
		}
	}
	for i := range add {
		header := &add[i]
		if !header.always && !addsHeaders(status) {
			continue
		}
		work, fits := s.evaluate(x.memory.work[:0], x, header.value)
		x.memory.work = work
		work = spaceless(work)
		if edit, err := header.add.With(x.keep(work)); fits && err == nil && len(work) > 0 {
			x.ResponseEdits = append(x.ResponseEdits, edit)
		}
	}
}

// outer returns the changes of the response outside of conditions.
func (f *directives) outer(s *directiveState) *directiveResponse {
	if s.server {
		return &f.serverResponse
	}
	return &f.response
}

// change changes the headers of a response. One whose value is invalid is removed.
func (s *directiveState) change(headers []textHeader, x *Exchange, status int) {
	for i := range headers {
		header := &headers[i]
		if !header.applies(status) || header.name == "content-type" && x.rewritten.locally {
			continue
		}
		work, fits := s.evaluate(x.memory.work[:0], x, header.value)
		x.memory.work = work
		edit := header.remove
		if work = spaceless(work); fits && len(work) > 0 {
			if made, err := header.set.With(x.keep(work)); err == nil {
				edit = made
			}
		}
		x.ResponseEdits = append(x.ResponseEdits, edit)
	}
}

// spaceless returns the value of a header without space around it, which is no part of
// it.
func spaceless(value []byte) []byte { return bytes.Trim(value, " \t") }

// applies reports whether a header is for responses with a status.
func (h *textHeader) applies(status int) bool {
	return len(h.statuses) == 0 || slices.Contains(h.statuses, status)
}

// addsHeaders reports whether add_header without always adds headers to a status.
func addsHeaders(status int) bool {
	switch status {
	case 200, 201, 204, 206, 301, 302, 303, 304, 307, 308:
		return true
	}
	return false
}
