package ingress

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/must"
)

// answer is the result of a request.
type answer struct {
	failure  error
	status   int
	header   http.Header
	cookies  []*http.Cookie
	shown    string    // common name of the certificate
	received *received // nil when the edge answered itself
}

// backend returns the backend that responded; empty when it was the edge.
func (a *answer) backend() string {
	if a.received == nil {
		return ""
	}
	return a.received.Backend
}

// String describes it for error messages.
func (a *answer) String() string {
	if a.failure != nil {
		return "no answer: " + a.failure.Error()
	}
	text := strconv.Itoa(a.status)
	if a.received != nil {
		text = a.received.Backend + " " + text + fmt.Sprintf(", which received %+v", *a.received)
	}
	text += fmt.Sprintf(", header %v", a.header)
	if a.shown != "" {
		text += ", certificate " + strconv.Quote(a.shown)
	}
	return text
}

// send sends a request on a connection of its own.
func (c *scene) send(t *testing.T, q *request) *answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got := &answer{}
	made := must.Get(http.NewRequestWithContext(ctx, q.method, q.url, bytes.NewReader(make([]byte, q.body))))(t)
	made.Header = q.header.Clone()
	for _, cookie := range c.jars[q.jar] {
		made.AddCookie(cookie)
	}
	transport := &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, Protocols: &http.Protocols{},
		TLSClientConfig: c.clientTLS(t, q, &got.shown),
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			var dialer net.Dialer
			return dialer.DialContext(ctx, network, c.edge.Address(q.point(made.URL)))
		},
	}
	transport.Protocols.SetHTTP1(q.protocol != "h2")
	transport.Protocols.SetHTTP2(q.protocol == "h2")
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(made)
	if err != nil {
		got.failure = err
		return got
	}
	defer func() { _ = response.Body.Close() }()
	got.status, got.header, got.cookies = response.StatusCode, response.Header, response.Cookies()
	text, err := readBody(response)
	if err != nil {
		got.failure = err
		return got
	}
	var said received
	if json.Unmarshal(text, &said) == nil && said.Backend != "" {
		got.received = &said
	}
	return got
}

// point is the entry point that a request goes to.
func (q *request) point(at *url.URL) string {
	switch {
	case q.entryPoint != "":
		return q.entryPoint
	case at.Scheme == "https":
		return tlsPoint
	default:
		return plainPoint
	}
}

func readBody(response *http.Response) ([]byte, error) {
	body := io.Reader(response.Body)
	if response.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(body)
		if err != nil {
			return nil, err
		}
		body = unpacked
	}
	return io.ReadAll(io.LimitReader(body, 1<<20))
}

// play sends the request as often as it takes, and returns what is wrong.
func (q *request) play(t *testing.T, c *scene) string {
	if q.start {
		q.begin(t, c)
		return ""
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		wrong := q.try(t, c)
		switch {
		case wrong == "" || !q.eventually:
			return wrong
		case ctx.Err() != nil:
			return fmt.Sprintf("after %s still: %s", patience, wrong)
		}
		pause(ctx)
	}
}

// begin sends the request and returns when a backend holds it. What comes of it
// is judged when it ends.
func (q *request) begin(t *testing.T, c *scene) {
	holder := c.backend(t, q.wantBackends[0])
	before := holder.holds()
	c.pending.Go(func() {
		if wrong := q.judge(c.send(t, q)); wrong != "" {
			t.Errorf("%s %s: %s", q.method, q.url, wrong)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for holder.holds() <= before {
		if ctx.Err() != nil {
			t.Fatalf("%s does not get the request", holder.name)
		}
		pause(ctx)
	}
}

// most bounds how many requests are sent until every backend has responded.
const most = 400

// try sends the request, as often as it asks for and until every backend that should
// has responded. It returns what is wrong, or nothing.
func (q *request) try(t *testing.T, c *scene) string {
	seen := map[string]bool{}
	for i := 0; i < most; i++ {
		got := c.send(t, q)
		if wrong := q.judge(got); wrong != "" {
			return wrong
		}
		if q.jar != "" && len(got.cookies) > 0 {
			c.jars[q.jar] = got.cookies
		}
		seen[got.backend()] = true
		if q.same && len(seen) > 1 {
			return "not always the same backend answers"
		}
		if i+1 >= q.times && (q.same || len(seen) >= len(q.wantBackends)) {
			return ""
		}
	}
	return fmt.Sprintf("of %v only %v have answered", q.wantBackends, seen)
}

// judge compares a response with what is expected.
func (q *request) judge(got *answer) string {
	if q.wantFailure {
		if got.failure == nil {
			return "there is an answer: " + got.String()
		}
		return ""
	}
	switch {
	case got.failure != nil, got.status != q.wantStatus:
		return "got " + got.String()
	case len(q.wantBackends) == 0 && got.received != nil:
		return "a backend answers: " + got.String()
	case len(q.wantBackends) > 0 && !slices.Contains(q.wantBackends, got.backend()):
		return "got " + got.String()
	}
	for _, check := range q.checks {
		if wrong := check(got); wrong != "" {
			return wrong + " in " + got.String()
		}
	}
	return ""
}

// parseCheck reads what is expected beside backend and status; nil when it is
// nothing that is known.
func parseCheck(word, rest string) func(*answer) string {
	name, value, pair := strings.Cut(rest, ": ")
	absent, no := strings.CutPrefix(rest, "no ")
	switch {
	case word == "shown":
		return func(got *answer) string { return differs("the certificate", got.shown, rest) }
	case word == "attributes":
		return func(got *answer) string {
			_, attributes, _ := strings.Cut(got.header.Get("Set-Cookie"), "; ")
			return differs("the attributes of the cookie", attributes, rest)
		}
	case word == "answer" && no:
		return func(got *answer) string { return differs(absent, strings.Join(got.header.Values(absent), ", "), "") }
	case word == "answer" && pair:
		return func(got *answer) string { return differs(name, strings.Join(got.header.Values(name), ", "), value) }
	case word == "got" && no:
		return ofReceived(func(r *received) string { return differs(absent, strings.Join(r.Header.Values(absent), ", "), "") })
	case word == "got" && pair:
		return ofReceived(func(r *received) string { return differs(name, strings.Join(r.Header.Values(name), ", "), value) })
	case word == "got":
		field, want, _ := strings.Cut(rest, " ")
		return ofReceived(func(r *received) string { return differs(field, r.field(field), want) })
	}
	return nil
}

// ofReceived is a check of what a backend received.
func ofReceived(check func(*received) string) func(*answer) string {
	return func(got *answer) string {
		if got.received == nil {
			return "nothing was received"
		}
		return check(got.received)
	}
}

// field is a part of a request that is no header.
func (r *received) field(name string) string {
	switch name {
	case "host":
		return r.Host
	case "path":
		return r.Path
	case "method":
		return r.Method
	case "protocol":
		return r.Protocol
	case "body":
		return strconv.Itoa(r.Body)
	}
	return "no field of this name"
}

// differs compares a text with one that may be * for any, or end with it.
func differs(what, got, want string) string {
	start, open := strings.CutSuffix(want, "*")
	if got == want || open && got != "" && strings.HasPrefix(got, start) {
		return ""
	}
	return fmt.Sprintf("%s is %q, want %q", what, got, want)
}
