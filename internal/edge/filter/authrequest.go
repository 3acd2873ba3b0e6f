package filter

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"net/http"
	"slices"
	"time"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/route"
)

// The responses of auth_request. It has no page of the authentication server, and
// every response that is no decision is an error of the server.
var (
	authFailed    = &LocalResponse{Status: 500, Reason: "AuthUnavailable"}
	authForbidden = &LocalResponse{Status: 403, Reason: "AuthRefused"}
)

// authRequest is the part of forwardAuth that behaves as auth_request of nginx.
type authRequest struct {
	target, host, signin variableText
	headers              []authHeader
	always               bool
	// mark has the place of the cookies in Exchange.ResponseEdits: the first one, and
	// in the low 16 bits how many.
	mark              int
	cookie, challenge h1.Edit
	redirect          redirection
	// directives are those of the rule, nil without any.
	directives *directives

	// cacheKey is nil without a cache. salt keeps the decisions of this filter apart
	// from those of all others.
	cacheKey   variableText
	cacheTimes []route.AuthCacheTime
	cache      *authCache
	salt       uint64
}

// authHeader is a header of the sub-request.
type authHeader struct {
	name  string
	value variableText
}

// newAuthRequest compiles the texts.
func newAuthRequest(a *route.AuthRequest, c *compiler) (*authRequest, error) {
	f := &authRequest{always: a.AlwaysSetCookie, mark: c.mark(), cacheTimes: a.Cache, directives: c.directives}
	if f.directives != nil && f.directives.auth != nil {
		f.directives.auth.attached = true
	}
	for _, text := range []struct {
		field, text string
		into        *variableText
	}{{"target", a.Target, &f.target}, {"host", a.Host, &f.host}, {"signin", a.Signin, &f.signin}, {"cacheKey", a.CacheKey, &f.cacheKey}} {
		compiled, err := newVariableText(text.text)
		if err != nil {
			return nil, invalid("authRequest."+text.field, "%v", err)
		}
		*text.into = compiled
	}
	for _, header := range a.Headers {
		value, err := newVariableText(header.Value)
		if err != nil {
			return nil, invalid("authRequest.headers", "%s: %v", header.Name, err)
		}
		f.headers = append(f.headers, authHeader{header.Name, value})
	}
	if f.cacheKey != nil {
		f.cache = &c.counters.decisions
		f.salt = f.cache.salts.Add(1)
	}
	var err error
	if f.cookie, err = h1.AddField("Set-Cookie", ""); err != nil {
		return nil, err
	}
	if f.challenge, err = h1.AddField("WWW-Authenticate", ""); err != nil {
		return nil, err
	}
	f.redirect, err = newRedirection(302)
	return f, err
}

// authDecision is the part of a response that counts. It is immutable: a cached one is
// shared.
type authDecision struct {
	status int
	// copies are the values of the headers for the backend, by their place in the
	// list of the filter.
	copies              [][]string
	cookies, challenges []string
	// kept are the headers that variables of directives need, by their place in the
	// list of the directives.
	kept []string
}

// decide sends the sub-request, unless directives return a status in its place, or its
// decision is cached.
func (f *forwardAuth) decide(x *Exchange, request *Subrequest) *LocalResponse {
	a := f.auth
	further, status, local := a.directives.prepareAuth(x)
	switch {
	case local != nil:
		return local
	case status != 0:
		return f.apply(x, &authDecision{status: status}, false)
	}
	var key [sha256.Size]byte
	if a.cache != nil {
		key = a.keyOf(x)
		if cached := a.cache.get(key, x.Now); cached != nil {
			return f.apply(x, cached, false)
		}
	}
	if !a.fill(x, request) {
		return authFailed
	}
	request.Fields = append(a.fields(f, x), further...)
	response, err := f.backend.Do(request)
	if err != nil {
		return f.apply(x, &authDecision{status: http.StatusBadGateway}, true)
	}
	defer response.Close()
	decision := f.read(response.Head)
	if a.cache != nil {
		if valid := a.validFor(response.Head, decision); valid > 0 {
			a.cache.put(key, decision, x.Now.Add(valid))
		}
	}
	return f.apply(x, decision, true)
}

// fill sets target and host of the sub-request. It reports false if the request makes
// them invalid: a client must not lead the sub-request out of its path.
func (a *authRequest) fill(x *Exchange, request *Subrequest) bool {
	if a.host != nil {
		host, _, err := normalize.Host(nil, a.host.append(nil, x))
		if err != nil {
			return false
		}
		request.Host = string(host)
	}
	if a.target == nil {
		return true
	}
	path, query, has := bytes.Cut(a.target.append(nil, x), []byte("?"))
	canonical, hazards, err := normalize.Path(nil, path)
	if err != nil || hazards != 0 || !sameButSlashes(canonical, path) || !visible(query) || bytes.IndexByte(query, '#') >= 0 {
		return false
	}
	if has {
		canonical = append(append(canonical, '?'), query...)
	}
	request.Target = string(canonical)
	return true
}

// fields are the headers of the sub-request: those of the client, but for those that
// are set.
func (a *authRequest) fields(f *forwardAuth, x *Exchange) []Field {
	head := x.Head
	fields := make([]Field, 0, head.Len()+len(a.headers))
	for i := range head.Len() {
		id, name := head.ID(i), head.Name(i)
		if id.ConnectionOnly() || id.Identity() || !f.forwards(id, name) || connectionLists(&head.Fields, id, name) || a.sets(name) {
			continue
		}
		fields = append(fields, Field{normalize.View(name), normalize.View(head.Value(i))})
	}
	for i := range a.headers {
		if value := a.headers[i].value.append(nil, x); len(value) > 0 {
			fields = append(fields, Field{a.headers[i].name, normalize.View(value)})
		}
	}
	return fields
}

// sets reports whether a header of the sub-request is set.
func (a *authRequest) sets(name []byte) bool {
	return a.directives.setsAuth(name) || slices.ContainsFunc(a.headers, func(header authHeader) bool { return normalize.SameField(name, normalize.Bytes(header.name)) })
}

// read copies a decision out of a response.
func (f *forwardAuth) read(head *h1.ResponseHead) *authDecision {
	decision := &authDecision{status: head.Status}
	if len(f.copies) > 0 {
		decision.copies = make([][]string, len(f.copies))
	}
	kept := f.auth.directives.keptNames()
	if len(kept) > 0 {
		decision.kept = make([]string, len(kept))
	}
	for line := range head.Len() {
		name := head.Name(line)
		switch {
		case bytes.EqualFold(name, []byte("Set-Cookie")):
			decision.cookies = append(decision.cookies, string(head.Value(line)))
		case bytes.EqualFold(name, []byte("WWW-Authenticate")):
			decision.challenges = append(decision.challenges, string(head.Value(line)))
		}
		for i := range f.copies {
			if bytes.EqualFold(name, normalize.Bytes(f.copies[i].name)) {
				decision.copies[i] = append(decision.copies[i], string(head.Value(line)))
			}
		}
		for i, variable := range kept {
			if namesHeader(variable, name) {
				decision.keep(i, head.Value(line))
			}
		}
	}
	return decision
}

// keep adds a line of a header that variables need.
func (d *authDecision) keep(i int, value []byte) {
	if d.kept[i] != "" {
		d.kept[i] += ", "
	}
	d.kept[i] += string(value)
}

// apply lets the request in or refuses it. The cookies are added here, and taken away
// by keepCookies if the response turns out to be one without them. Variables get their
// values in both cases: headers of a refusal can have them.
func (f *forwardAuth) apply(x *Exchange, decision *authDecision, sent bool) *LocalResponse {
	a := f.auth
	if local := a.directives.setAuth(x, decision, sent); local != nil {
		return local
	}
	x.Marks[a.mark] = int64(len(x.ResponseEdits)) << 16
	for _, value := range decision.cookies[:min(len(decision.cookies), maxAuthHeaders)] {
		if edit, err := a.cookie.With(value); err == nil {
			x.ResponseEdits = append(x.ResponseEdits, edit)
			x.Marks[a.mark]++
		}
	}
	switch {
	case decision.status/100 == 2:
		if local := f.copyInto(x, decision); local != nil {
			return local
		}
		return a.directives.admit(x)
	case decision.status == 401:
		return a.refuse(x, decision)
	case decision.status == 403:
		return authForbidden
	}
	return authFailed
}

// copyInto copies the headers of a decision into the request.
func (f *forwardAuth) copyInto(x *Exchange, decision *authDecision) *LocalResponse {
	for i, values := range decision.copies {
		if len(values) > maxAuthHeaders {
			return authFailed
		}
		edit := f.copies[i].set
		for _, value := range values {
			made, err := edit.With(value)
			if err != nil {
				return authFailed
			}
			x.RequestEdits = append(x.RequestEdits, made)
			edit = f.copies[i].add
		}
	}
	return nil
}

// refuse responds to a request without a valid session: with a redirect to the sign-in
// page if there is one. Both have the challenges of the server, as in nginx.
func (a *authRequest) refuse(x *Exchange, decision *authDecision) *LocalResponse {
	var local *LocalResponse
	if a.signin == nil {
		local = x.respond(401, "AuthRefused")
	} else {
		location := a.signin.append(nil, x)
		if !visible(location) {
			return badLocation
		}
		if local = a.redirect.to(x, location); local == badLocation {
			return local
		}
		local.Reason = "SigninNeeded"
		if s := a.directives.state(x); s != nil {
			s.signin = true
		}
	}
	for _, value := range decision.challenges[:min(len(decision.challenges), maxAuthHeaders)] {
		if edit, err := a.challenge.With(value); err == nil {
			x.memory.edits = append(x.memory.edits, edit)
		}
	}
	local.Edits = x.memory.edits
	return local
}

// keepCookies takes the cookies of the authentication server away from a response that
// failed, unless the policy adds them to all: add_header of nginx does the same.
func (a *authRequest) keepCookies(x *Exchange, status int) {
	first, count := int(x.Marks[a.mark]>>16), int(x.Marks[a.mark]&0xffff)
	if count == 0 || first+count > len(x.ResponseEdits) || (a.always || addsHeaders(status)) && !a.directives.replaces(x) {
		return
	}
	x.ResponseEdits = slices.Delete(x.ResponseEdits, first, first+count)
}

// keyOf returns the key of a request in the cache. The host is part of it: one filter
// can serve all hosts of a wildcard.
func (a *authRequest) keyOf(x *Exchange) [sha256.Size]byte {
	text := binary.BigEndian.AppendUint64(nil, a.salt)
	text = append(append(text, x.Head.URI.Host...), 0)
	return sha256.Sum256(a.cacheKey.append(text, x))
}

// validFor returns how long a decision may be cached, 0 for not at all. As in nginx, one
// that sets a cookie is never cached, and headers of the response can forbid it.
func (a *authRequest) validFor(head *h1.ResponseHead, decision *authDecision) time.Duration {
	if len(decision.cookies) > 0 || decision.size() > maxDecisionBytes {
		return 0
	}
	for line := range head.Len() {
		for _, name := range []string{"Cache-Control", "Expires", "Vary", "X-Accel-Expires", "Pragma"} {
			if bytes.EqualFold(head.Name(line), normalize.Bytes(name)) {
				return 0
			}
		}
	}
	for _, entry := range a.cacheTimes {
		if len(entry.Statuses) == 0 || slices.Contains(entry.Statuses, decision.status) {
			return time.Duration(entry.For)
		}
	}
	return 0
}

// size returns the bytes of the texts of a decision.
func (d *authDecision) size() int {
	size := 0
	for _, values := range append([][]string{d.cookies, d.challenges, d.kept}, d.copies...) {
		for _, value := range values {
			size += len(value) + 16
		}
	}
	return size
}
