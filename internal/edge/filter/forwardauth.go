package filter

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/route"
)

const (
	// authTimeout bounds the sub-request where the policy does not.
	authTimeout = 5 * time.Second
	// maxAuthResponse bounds the body of a response where the policy does not: a
	// sign-in page is smaller.
	maxAuthResponse = 64 << 10
	// maxAuthHeaders bounds the values of one name that are copied from the
	// response into the request.
	maxAuthHeaders = 16
)

// authUnavailable is the response when the authentication server cannot be
// reached or its response cannot be used: the policy fails closed.
var authUnavailable = &LocalResponse{Status: 503, Reason: "AuthUnavailable"}

// forwardAuth lets an authentication server decide whether a request may pass.
//
// The sub-request has the client's headers, but none about the identity of the
// client: those are set by the edge. A response with 2xx lets the request in. Any
// other is passed on to the client, except that 401 becomes a redirect where the
// policy has a sign-in URL. No response, or one that is too large to pass on, is
// 503.
type forwardAuth struct {
	backend SubrequestClient
	pattern Subrequest
	// allowed are the client's headers that are sent along; none means all.
	allowed []string
	// vouched are the headers of the whole chain that only filters may set.
	vouched         *[]string
	vouchedPatterns *[]*headerPattern
	maxBody         int64
	copies          []authCopy
	// more matches further headers of the response that are copied; nil for none.
	more   *headerPattern
	signin *LocalResponse
	// auth is set if it behaves as auth_request of nginx.
	auth *authRequest
}

// authCopy is a header that is copied from the response into the request.
type authCopy struct {
	name             string
	remove, set, add h1.Edit
}

// newForwardAuth compiles the policy. The headers that it copies are vouched for
// by the whole chain: no other sub-request may take them from a client.
func newForwardAuth(a *route.ForwardAuth, c *compiler) (*forwardAuth, error) {
	backend, err := c.backend(a.Backend)
	if err != nil {
		return nil, err
	}
	path, hazards, err := normalize.Path(nil, []byte(a.Path))
	if err != nil || hazards != 0 {
		return nil, invalid("path", "%q is not a canonical path; write one such as /auth", a.Path)
	}
	if strings.ContainsFunc(a.Query, func(c rune) bool { return c <= ' ' || c > '~' || c == '#' }) {
		return nil, invalid("query", "%q is not a query; write one such as a=b&c=d", a.Query)
	}
	if a.Query != "" {
		path = append(append(path, '?'), a.Query...)
	}
	f := &forwardAuth{
		backend: backend, allowed: a.RequestHeaders, vouched: c.vouched, vouchedPatterns: c.vouchedPatterns, maxBody: a.MaxBodyBytes,
		pattern: Subrequest{
			Method: cmp.Or(a.Method, "GET"), Target: string(path), Host: a.Host,
			MaxResponse: cmp.Or(a.MaxResponseBytes, maxAuthResponse), Timeout: cmp.Or(time.Duration(a.Timeout), authTimeout),
		},
	}
	for i, name := range a.ResponseHeaders {
		entry, err := newAuthCopy(name)
		if err != nil {
			return nil, invalid(fmt.Sprintf("responseHeaders[%d]", i), "%v", err)
		}
		f.copies = append(f.copies, entry)
	}
	c.vouch(a.ResponseHeaders...)
	if f.more, err = newHeaderPattern(a.ResponseHeadersRegexp); err != nil {
		return nil, err
	}
	c.vouchPattern(f.more)
	if a.AuthRequest != nil {
		if f.auth, err = newAuthRequest(a.AuthRequest, c); err != nil {
			return nil, err
		}
	}
	if a.SigninURL != "" {
		location, err := h1.SetField("Location", a.SigninURL)
		if err != nil {
			return nil, invalid("signinURL", "%v", err)
		}
		f.signin = &LocalResponse{Status: 302, Reason: "SigninNeeded", Edits: []h1.Edit{location}}
	}
	return f, nil
}

// newAuthCopy makes the edits of a header once, so that a request only fills in
// the value.
func newAuthCopy(name string) (entry authCopy, err error) {
	entry.name = name
	if entry.remove, err = h1.RemoveField(name); err != nil {
		return entry, err
	}
	if entry.set, err = h1.SetField(name, ""); err != nil {
		return entry, err
	}
	entry.add, err = h1.AddField(name, "")
	return entry, err
}

// Slow implements [SlowFilter].
func (f *forwardAuth) Slow() {}

// Request implements [Filter].
func (f *forwardAuth) Request(x *Exchange) *LocalResponse {
	// The client's own headers of these names are removed in any case.
	for i := range f.copies {
		x.RequestEdits = append(x.RequestEdits, f.copies[i].remove)
	}
	x.RequestEdits = f.more.removals(x.RequestEdits, &x.Head.Fields)
	request := f.pattern
	if f.maxBody > 0 && x.Bufferer != nil {
		body, local := x.Bufferer.BufferBody(f.maxBody)
		if local != nil {
			return local
		}
		request.Body = body
	}
	if f.auth != nil {
		return f.decide(x, &request)
	}
	request.Fields = f.fields(x)
	response, err := f.backend.Do(&request)
	if err != nil {
		return authUnavailable
	}
	defer response.Close()
	if response.Head.Status/100 == 2 {
		return f.admit(x, response.Head)
	}
	if response.Head.Status == 401 && f.signin != nil {
		return f.signin
	}
	return f.refuse(x, response)
}

// Response implements [ResponseFilter].
func (f *forwardAuth) Response(x *Exchange, status int) {
	if f.auth != nil {
		f.auth.keepCookies(x, status)
	}
}

// fields are the headers of the sub-request. Views of the client's head are safe:
// the sub-request is over before the exchange goes on.
func (f *forwardAuth) fields(x *Exchange) []Field {
	head := x.Head
	fields := make([]Field, 0, head.Len()+5)
	for i := range head.Len() {
		id := head.ID(i)
		if id.ConnectionOnly() || id.Identity() || !f.forwards(id, head.Name(i)) || connectionLists(&head.Fields, id, head.Name(i)) {
			continue
		}
		fields = append(fields, Field{normalize.View(head.Name(i)), normalize.View(head.Value(i))})
	}
	proto := "http"
	if x.TLS {
		proto = "https"
	}
	return append(fields,
		Field{"X-Forwarded-Method", normalize.View(head.Method())},
		Field{"X-Forwarded-Proto", proto},
		Field{"X-Forwarded-Host", normalize.View(head.URI.Authority)},
		Field{"X-Forwarded-Uri", string(head.URI.AppendTarget(nil))},
		Field{"X-Forwarded-For", x.Client.String()},
	)
}

// forwards reports whether a header of the client goes into the sub-request. Those
// that filters set for backends are never taken from the client.
func (f *forwardAuth) forwards(id normalize.Field, name []byte) bool {
	switch id {
	case normalize.FieldHost, normalize.FieldContentLength, normalize.FieldTransferEncoding,
		normalize.FieldTrailer, normalize.FieldExpect:
		return false
	case normalize.FieldCDNLoop:
		return true // the authentication server may be behind this edge
	case normalize.FieldAuthorization, normalize.FieldCookie:
		// With auth_request, the server can return credentials in place of those that it
		// needs to see.
		if f.auth != nil && f.returns(name) {
			return true
		}
	}
	for _, vouched := range *f.vouched {
		if normalize.SameField(name, normalize.Bytes(vouched)) {
			return false
		}
	}
	if matchesAny(*f.vouchedPatterns, name) {
		return false
	}
	if len(f.allowed) == 0 {
		return true
	}
	return slices.ContainsFunc(f.allowed, func(allowed string) bool { return bytes.EqualFold(name, normalize.Bytes(allowed)) })
}

// returns reports whether the filter copies a header from the response.
func (f *forwardAuth) returns(name []byte) bool {
	return slices.ContainsFunc(f.copies, func(entry authCopy) bool { return bytes.EqualFold(name, normalize.Bytes(entry.name)) })
}

// admit lets the request in, with the headers that the response has for it.
func (f *forwardAuth) admit(x *Exchange, head *h1.ResponseHead) *LocalResponse {
	for i := range f.copies {
		entry := &f.copies[i]
		edit := entry.set
		count := 0
		for line := range head.Len() {
			if !bytes.EqualFold(head.Name(line), normalize.Bytes(entry.name)) {
				continue
			}
			made, err := edit.With(x.keep(head.Value(line)))
			if count++; err != nil || count > maxAuthHeaders {
				return authUnavailable
			}
			x.RequestEdits = append(x.RequestEdits, made)
			edit = entry.add
		}
	}
	if !f.more.copies(x, &head.Fields) {
		return authUnavailable
	}
	return nil
}

// refuse passes the response on to the client, without its headers about the
// connection.
func (f *forwardAuth) refuse(x *Exchange, response *Subresponse) *LocalResponse {
	if response.Truncated || response.Head.Status < 200 {
		return authUnavailable
	}
	local := x.respond(response.Head.Status, "AuthRefused")
	local.Edits = x.copyResponseFields(response.Head)
	// Not nil: a response without a body is to stay one.
	local.Body = append(make([]byte, 0, len(response.Body)), response.Body...)
	return local
}

// copyResponseFields returns the headers of another server's response as edits of
// a local one. The edge sets length and date itself.
func (x *Exchange) copyResponseFields(head *h1.ResponseHead) []h1.Edit {
	for line := range head.Len() {
		switch id := head.ID(line); {
		case id.ConnectionOnly(), id == normalize.FieldDate, id == normalize.FieldTrailer, connectionLists(&head.Fields, id, head.Name(line)):
			continue
		}
		edit, err := h1.AddField(x.keep(head.Name(line)), x.keep(head.Value(line)))
		if err == nil { // the others frame the message
			x.memory.edits = append(x.memory.edits, edit)
		}
	}
	return x.memory.edits
}

// connectionLists reports whether a Connection header names a field, which makes
// it a field of that connection only (RFC 9110, 7.6.1).
func connectionLists(fields *h1.Fields, id normalize.Field, name []byte) bool {
	if id.Settled() {
		return false
	}
	for line := range fields.Len() {
		if fields.ID(line) != normalize.FieldConnection {
			continue
		}
		for option := range bytes.SplitSeq(fields.Value(line), []byte(",")) {
			if normalize.SameField(bytes.TrimSpace(option), name) {
				return true
			}
		}
	}
	return false
}
