package h2_test

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"slipway.dev/slipway/internal/edge/bridge/bridgetest"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/h2"
	"slipway.dev/slipway/internal/must"
)

// sender is what a stream has for parsed responses.
type sender interface {
	SendResponse(plan *h1.ResponsePlan, head *h1.ResponseHead, body []byte) (sent bool, err error)
}

// plannedResponse is a response of a backend, and how it is passed on.
type plannedResponse struct {
	method, text string
	plan         h1.ResponsePlan
}

// send sends the response as it was parsed, or as text.
func (r *plannedResponse) send(x *bridgetest.Exchange, parsed bool) error {
	limits := h1.DefaultLimits()
	var head h1.ResponseHead
	head.Reset(h1.RequestInfo{Head: x.Head.MethodID == h1.MethodHead})
	n, err := head.Parse([]byte(r.text), &limits)
	if err != nil || n == 0 {
		return fmt.Errorf("%q: %d, %w", r.text, n, err)
	}
	plan := r.plan
	plan.Minor, plan.Length, plan.Framing = 1, head.Length, head.Framing
	if !parsed {
		return x.Send(string(plan.AppendTo(nil, &head)) + r.text[n:])
	}
	if sent, err := x.Conn.(sender).SendResponse(&plan, &head, []byte(r.text[n:])); !sent || err != nil {
		return fmt.Errorf("%q is not sent: %w", r.text, err)
	}
	if x.Send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") == nil {
		return fmt.Errorf("%q: a second response is sent", r.text)
	}
	return nil
}

// randomResponse has headers of all kinds, and edits of them.
func randomResponse(t *testing.T, random *rand.Rand) plannedResponse {
	lines := []string{
		"Content-Type: text/plain", "content-type: application/grpc", "Set-Cookie: a=b", "Set-Cookie: c=d", "X-One: 1", "x-two:2", "X-Three:   three  ",
		"Connection: X-Hop, close", "X-Hop: 1", "Keep-Alive: timeout=5", "Trailer: X-Sum", "Server: s", "Vary: Accept", "X-Long: " + strings.Repeat("v", 300),
	}
	var text strings.Builder
	r := plannedResponse{method: "GET"}
	status, body := 200, strings.Repeat("b", random.IntN(50))
	switch random.IntN(6) {
	case 0:
		status, body = 204, ""
	case 1:
		status, body = 304, ""
	case 2:
		status = 404
	case 3:
		r.method = "HEAD"
	}
	fmt.Fprintf(&text, "HTTP/1.1 %d Reason\r\n", status)
	for _, i := range random.Perm(len(lines))[:random.IntN(len(lines))] {
		text.WriteString(lines[i] + "\r\n")
	}
	if status != 304 || random.IntN(2) == 0 {
		fmt.Fprintf(&text, "Content-Length: %d\r\n", len(body))
	}
	text.WriteString("\r\n")
	if r.method == "GET" {
		text.WriteString(body)
	}
	r.text = text.String()
	if random.IntN(2) == 0 {
		r.plan.Edits = []h1.Edit{
			must.Get(h1.SetField("X-One", "set"))(t), must.Get(h1.AddField("Set-Cookie", "e=f"))(t), must.Get(h1.RemoveField("Server"))(t),
			must.Get(h1.AddField("X-Gone", "never"))(t), must.Get(h1.RemoveField("x-gone"))(t),
		}
	}
	return r
}

// TestSendResponse: a response that is sent as it was parsed reaches a client as one that
// is written as text does.
func TestSendResponse(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	responses := make([]plannedResponse, 300)
	for i := range responses {
		responses[i] = randomResponse(t, random)
	}
	s := start(t, h2.Config{Handler: bridgetest.Handler(func(x *bridgetest.Exchange) {
		kind, number, _ := strings.Cut(strings.TrimPrefix(string(x.Head.URI.Path), "/"), "/")
		i, err := strconv.Atoi(number)
		if err == nil {
			err = responses[i].send(x, kind == "parsed")
		}
		if err != nil {
			t.Error(err)
		}
	})}, nil)
	c := client(t, nil)
	get := func(kind string, i int) string {
		request := must.Get(http.NewRequest(responses[i].method, fmt.Sprintf("http://%s/%s/%d", s.addr, kind, i), nil))(t)
		response, err := c.Do(request)
		if err != nil {
			t.Fatalf("%s: %q: %v", kind, responses[i].text, err)
		}
		defer response.Body.Close()
		body := must.Get(io.ReadAll(response.Body))(t)
		header := maps.Clone(response.Header)
		return fmt.Sprintln(response.StatusCode, response.ContentLength, header, string(body))
	}
	for i := range responses {
		if text, parsed := get("text", i), get("parsed", i); text != parsed {
			t.Fatalf("%q\nas text: %sas parsed: %s", responses[i].text, text, parsed)
		}
	}
}

// TestSendResponseWaits: a response that the client's window has no room for is left to the
// caller, who writes it as text.
func TestSendResponseWaits(t *testing.T) {
	r := plannedResponse{text: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"}
	refused := make(chan error, 1)
	s := start(t, h2.Config{Handler: bridgetest.Handler(func(x *bridgetest.Exchange) {
		refused <- r.send(x, true)
		if err := r.send(x, false); err != nil {
			t.Error(err)
		}
	})}, nil)
	p := dial(t, s)
	must.Do(t, p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 3}))
	must.Do(t, p.open(1, true))
	if err := <-refused; err == nil || !strings.Contains(err.Error(), "is not sent") {
		t.Errorf("a response beyond the window: %v", err)
	}
	p.await(t, "the part that fits", func(e event) bool { return e.kind == http2.FrameData && e.data == "hel" })
	must.Do(t, p.WriteWindowUpdate(1, 10))
	p.await(t, "the rest", func(e event) bool { return e.data == "lo" && e.ends })
}
