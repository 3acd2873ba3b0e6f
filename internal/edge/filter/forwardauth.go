package filter

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/route"
)

const (
	// authTimeout bounds question and answer where the policy does not.
	authTimeout = 5 * time.Second
	// maxAuthResponse bounds the body of an answer where the policy does not: a page
	// that asks for a password is smaller.
	maxAuthResponse = 64 << 10
	// maxAuthHeaders bounds the values of one name that are copied from an
	// answer into the request.
	maxAuthHeaders = 16
)

// authUnavailable is the answer when the one who decides cannot be asked, or
// does not answer in order: nobody is let in. It stays the same for ever.
var authUnavailable = &LocalResponse{Status: 503, Reason: "AuthUnavailable"}

// forwardAuth asks another server whether a request may pass.
//
// The question has the client's headers, but none that says who the client is:
// those are the edge's own. An answer with 2xx lets the request in. Any other
// answer is the client's to have, except that 401 becomes a redirect where there
// is a place to sign in. No answer, or one that is too large to pass on, is 503.
type forwardAuth struct {
	backend SubrequestClient
	pattern Subrequest
	// allowed are the headers that go into the question; none means all.
	allowed []string
	// vouched are the headers of the whole chain that only filters may say.
	vouched *[]string
	maxBody int64
	copies  []authCopy
	signin  *LocalResponse
}

// authCopy is a header that goes from the answer into the request.
type authCopy struct {
	name             string
	remove, set, add h1.Edit
}

func newForwardAuth(a *route.ForwardAuth, c *compiler) (*forwardAuth, error) {
	backend, err := c.backend(a.Backend)
	if err != nil {
		return nil, err
	}
	path, hazards, err := normalize.Path(nil, []byte(a.Path))
	if err != nil || hazards != 0 {
		return nil, invalid("path", "%q is not a path that can be asked for", a.Path)
	}
	if strings.ContainsFunc(a.Query, func(c rune) bool { return c <= ' ' || c > '~' || c == '#' }) {
		return nil, invalid("query", "%q is not a query that can be asked for", a.Query)
	}
	if a.Query != "" {
		path = append(append(path, '?'), a.Query...)
	}
	f := &forwardAuth{
		backend: backend, allowed: a.RequestHeaders, vouched: c.vouched, maxBody: a.MaxBodyBytes,
		pattern: Subrequest{
			Method: a.Method, Target: string(path), Host: a.Host,
			MaxResponse: a.MaxResponseBytes, Timeout: time.Duration(a.Timeout),
		},
	}
	if f.pattern.Method == "" {
		f.pattern.Method = "GET"
	}
	if f.pattern.MaxResponse == 0 {
		f.pattern.MaxResponse = maxAuthResponse
	}
	if f.pattern.Timeout == 0 {
		f.pattern.Timeout = authTimeout
	}
	for i, name := range a.ResponseHeaders {
		entry, err := newAuthCopy(name)
		if err != nil {
			return nil, invalid(fmt.Sprintf("responseHeaders[%d]", i), "%v", err)
		}
		f.copies = append(f.copies, entry)
	}
	c.vouch(a.ResponseHeaders...)
	if a.SigninURL != "" {
		location, err := h1.SetField("Location", a.SigninURL)
		if err != nil {
			return nil, invalid("signinURL", "%v", err)
		}
		f.signin = &LocalResponse{Status: 302, Reason: "SigninNeeded", Edits: []h1.Edit{location}}
	}
	return f, nil
}

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

// Request implements [Filter].
func (f *forwardAuth) Request(x *Exchange) *LocalResponse {
	// Whatever the answer, what the client says under these names is gone.
	for i := range f.copies {
		x.RequestEdits = append(x.RequestEdits, f.copies[i].remove)
	}
	question := f.pattern
	if f.maxBody > 0 && x.Bufferer != nil {
		body, answer := x.Bufferer.BufferBody(f.maxBody)
		if answer != nil {
			return answer
		}
		question.Body = body
	}
	question.Fields = f.fields(x)
	reply, err := f.backend.Do(&question)
	if err != nil {
		return authUnavailable
	}
	defer reply.Close()
	if reply.Head.Status/100 == 2 {
		return f.admit(x, reply.Head)
	}
	if reply.Head.Status == 401 && f.signin != nil {
		return f.signin
	}
	return f.refuse(x, reply)
}

// fields are the headers of the question. Views of the request are good
// enough: the question is asked before the exchange goes on.
func (f *forwardAuth) fields(x *Exchange) []Field {
	head := x.Head
	fields := make([]Field, 0, head.Len()+5)
	for i := range head.Len() {
		id := head.ID(i)
		if id.ConnectionOnly() || id.Identity() || !f.asked(id, head.Name(i)) || connectionLists(&head.Fields, id, head.Name(i)) {
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

// asked reports whether a header of the client's goes into the question. What
// filters tell backends about the client is not for the client to say.
func (f *forwardAuth) asked(id normalize.Field, name []byte) bool {
	switch id {
	case normalize.FieldHost, normalize.FieldContentLength, normalize.FieldTransferEncoding,
		normalize.FieldTrailer, normalize.FieldExpect:
		return false
	}
	for _, vouched := range *f.vouched {
		if normalize.SameField(name, normalize.Bytes(vouched)) {
			return false
		}
	}
	if len(f.allowed) == 0 {
		return true
	}
	for _, allowed := range f.allowed {
		if bytes.EqualFold(name, normalize.Bytes(allowed)) {
			return true
		}
	}
	return false
}

// admit lets the request in, with what the answer says about it.
func (f *forwardAuth) admit(x *Exchange, answer *h1.ResponseHead) *LocalResponse {
	for i := range f.copies {
		entry := &f.copies[i]
		edit := entry.set
		count := 0
		for line := range answer.Len() {
			if !bytes.EqualFold(answer.Name(line), normalize.Bytes(entry.name)) {
				continue
			}
			made, err := edit.With(x.keep(answer.Value(line)))
			if count++; err != nil || count > maxAuthHeaders {
				return authUnavailable
			}
			x.RequestEdits = append(x.RequestEdits, made)
			edit = entry.add
		}
	}
	return nil
}

// refuse passes the answer on to the client, without what concerned the
// connection it came over.
func (f *forwardAuth) refuse(x *Exchange, reply *Subresponse) *LocalResponse {
	if reply.Truncated || reply.Head.Status < 200 {
		return authUnavailable
	}
	answer := x.respond(reply.Head.Status, "AuthRefused")
	answer.Edits = x.copyResponseFields(reply.Head)
	// Not nil: an answer without a body is to stay one.
	answer.Body = append(make([]byte, 0, len(reply.Body)), reply.Body...)
	return answer
}

// copyResponseFields are the headers of an answer that another server gave, for a
// client. The length and the date are ours to say.
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

// connectionLists reports whether a Connection header names a field that is the
// sender's to take back.
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
