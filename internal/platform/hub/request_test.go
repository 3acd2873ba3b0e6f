package hub_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/coder/websocket"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/platform/hub"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire/runtimev1"
	"slipway.dev/slipway/internal/wire/runtimev1/runtimev1connect"
)

// A request arrives as it is: method, path in its spelling, query, host, headers
// and body; and so does the response.
func TestRequestArrivesAsItIs(t *testing.T) {
	w := newWorld()
	r := w.start(t, "one", nil)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Slipway-Test", r.Header.Get("Slipway-Test"))
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprintf(w, "%s %s %s %s", r.Method, r.Host, r.RequestURI, body)
	})
	w.join(t, "a", handler, nil, r).await(t, 2)
	request, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, "https://shop.test/app-proxy/a%2Fb?x=1&y=%20", strings.NewReader("body"))
	request.Header.Set("Slipway-Test", "value")
	response, err := r.Transport("a").RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	const want = "PUT shop.test /app-proxy/a%2Fb?x=1&y=%20 body"
	if err != nil || string(text) != want || response.StatusCode != http.StatusTeapot || response.Header.Get("Slipway-Test") != "value" {
		t.Errorf("%v %q %v, %v; want %q", response.Status, text, response.Header, err, want)
	}
}

// Only what a router serves passes, in no other spelling, and within the limits.
func TestRefusedRequests(t *testing.T) {
	w := newWorld()
	r := w.start(t, "one", func(o *hub.Options) { o.Limits = hub.Limits{HeaderBytes: 4 << 10, BodyBytes: 8} })
	w.join(t, "a", says("passed"), nil, r).await(t, 2)
	for _, tt := range []struct {
		name, method, path, body string
		header                   int
		want                     string // passed, refused, large
	}{
		{"app-proxy", "GET", "/app-proxy/x", "", 0, "passed"},
		{"webhooks", "POST", "/webhooks/rt/gs", "8 bytes.", 0, "passed"},
		{"workflows", "GET", "/workflows/", "", 0, "passed"},
		{"another path", "GET", "/metrics", "", 0, "refused"},
		{"root", "GET", "/", "", 0, "refused"},
		{"prefix without slash", "GET", "/app-proxy", "", 0, "refused"},
		{"longer word", "GET", "/app-proxyx/", "", 0, "refused"},
		{"parent", "GET", "/app-proxy/../metrics", "", 0, "refused"},
		{"escaped parent", "GET", "/app-proxy/%2e%2e/metrics", "", 0, "refused"},
		{"escaped slash", "GET", "/app-proxy/..%2fmetrics", "", 0, "refused"},
		{"backslash", "GET", "/app-proxy/..%5cmetrics", "", 0, "refused"},
		{"control character", "GET", "/app-proxy/%0a", "", 0, "refused"},
		{"connect", "CONNECT", "/app-proxy/x", "", 0, "refused"},
		{"header", "GET", "/app-proxy/x", "", 5 << 10, "refused"},
		{"body", "POST", "/app-proxy/x", "9 bytes..", 0, "large"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), tt.method, "http://any.test"+tt.path, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Large", strings.Repeat("x", tt.header))
			if got := outcomeOf(r.Transport("a").RoundTrip(request)); got != tt.want {
				t.Errorf("%s; want %s", got, tt.want)
			}
		})
	}
	t.Run("body of unknown length", func(t *testing.T) {
		request, _ := http.NewRequestWithContext(t.Context(), "POST", "http://any.test/app-proxy/x", io.MultiReader(strings.NewReader("9 bytes..")))
		if got := outcomeOf(r.Transport("a").RoundTrip(request)); got != "large" {
			t.Errorf("%s; want large", got)
		}
	})
}

func outcomeOf(response *http.Response, err error) string {
	if err == nil {
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		return string(text)
	}
	if _, ok := errors.AsType[*refusal.Refusal](err); ok {
		return "refused"
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return "large"
	}
	return err.Error()
}

// A runtime without a connection is offline.
func TestOffline(t *testing.T) {
	r := newWorld().start(t, "one", nil)
	_, _, err := r.ask(t.Context(), "a", "GET", "/app-proxy/x", nil)
	if offline, ok := errors.AsType[*hub.OfflineError](err); !ok || offline.RuntimeID != "a" {
		t.Errorf("%v, not an OfflineError", err)
	}
}

// A request waits for the first connection, and ends with its context
// when there is none.
func TestWaitingRequest(t *testing.T) {
	w := newWorld()
	r := w.start(t, "one", nil)
	send := func(ctx context.Context) string {
		request, err := http.NewRequestWithContext(ctx, "POST", "http://any.test/app-proxy/x", strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		return outcomeOf(r.WaitingTransport("a").RoundTrip(request))
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if got := send(ended); !strings.Contains(got, "not connected") {
		t.Errorf("without a connection: %s", got)
	}
	got := make(chan string)
	sending := make(chan struct{})
	go func() {
		close(sending)
		got <- send(t.Context())
	}()
	<-sending
	w.join(t, "a", says("passed"), nil, r)
	if text := <-got; text != "passed" {
		t.Errorf("%q; want the response of the agent", text)
	}
}

// More requests than allowed are refused, and there is room again when one ends.
func TestStreamLimit(t *testing.T) {
	w := newWorld()
	r := w.start(t, "one", func(o *hub.Options) { o.Limits.StreamsPerRuntime = 2 })
	w.join(t, "a", stuck, nil, r).await(t, 2)
	first, second := hold(t, r, "a"), hold(t, r, "a")
	_, _, err := r.ask(t.Context(), "a", "GET", "/app-proxy/x", nil)
	if busy, ok := errors.AsType[*hub.BusyError](err); !ok || busy.Limit != 2 {
		t.Errorf("%v, not a BusyError", err)
	}
	first()
	hold(t, r, "a")()
	second()
}

// stuck sends a header and then nothing, until the request is cancelled.
var stuck = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
})

// hold starts a request whose response does not end. The function drops it.
func hold(t testing.TB, r *replica, runtimeID string) func() {
	t.Helper()
	request, _ := http.NewRequestWithContext(t.Context(), "GET", "http://any.test/app-proxy/stuck", nil)
	response, err := r.Transport(runtimeID).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	return func() { _ = response.Body.Close() }
}

// The end of a client's request reaches the agent.
func TestCancelReachesAgent(t *testing.T) {
	w := newWorld()
	r := w.start(t, "one", nil)
	began, cancelled := make(chan struct{}), make(chan struct{})
	w.join(t, "a", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
		close(cancelled)
	}), nil, r).await(t, 2)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, _, err := r.ask(ctx, "a", "GET", "/app-proxy/x", nil)
		failed <- err
	}()
	await(t, began, "the request begins")
	cancel()
	await(t, cancelled, "the agent's request is cancelled")
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("the request ended with %v", err)
	}
}

// A handler that is blocked on writing its response is cancelled too: the response
// is not read any longer, and the stream is reset.
func TestCancelReachesWriter(t *testing.T) {
	w := newWorld()
	r := w.start(t, "one", nil)
	ended := make(chan struct{})
	w.join(t, "a", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		defer close(ended)
		for {
			if _, err := w.Write(make([]byte, 32<<10)); err != nil {
				return
			}
		}
	}), nil, r).await(t, 2)
	hold(t, r, "a")()
	await(t, ended, "the agent stops writing")
}

// await waits for a channel to be closed.
func await(t testing.TB, done <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(testTimeout):
		t.Fatalf("not within %v: %s", testTimeout, what)
	}
}

// Server-sent events arrive one by one, while the response continues.
func TestEventStream(t *testing.T) {
	w := newWorld()
	r := w.start(t, "one", nil)
	next := make(chan string)
	w.join(t, "a", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for event := range next {
			fmt.Fprintf(w, "data: %s\n", event)
			_ = http.NewResponseController(w).Flush()
		}
	}), nil, r).await(t, 2)
	request, _ := http.NewRequestWithContext(t.Context(), "GET", "http://any.test/app-proxy/events", nil)
	lines := make(chan string)
	go func() {
		defer close(lines)
		response, err := r.Transport("a").RoundTrip(request)
		if err != nil {
			t.Error(err)
			return
		}
		defer response.Body.Close()
		for scanner := bufio.NewScanner(response.Body); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	for i := range 3 {
		next <- fmt.Sprint(i)
		if got, want := <-lines, fmt.Sprintf("data: %d", i); got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
	close(next)
	if line, more := <-lines; more {
		t.Errorf("one line too many: %q", line)
	}
}

// logs is a service with a stream of messages.
type logs struct {
	runtimev1connect.UnimplementedApplicationServiceHandler
	lines chan string
}

// Logs sends lines as they come.
func (l logs) Logs(_ context.Context, _ *connect.Request[runtimev1.LogsRequest], stream *connect.ServerStream[runtimev1.LogsResponse]) error {
	for line := range l.lines {
		if err := stream.Send(&runtimev1.LogsResponse{Line: line}); err != nil {
			return err
		}
	}
	return nil
}

// A stream of messages of Connect comes message by message.
func TestConnectStream(t *testing.T) {
	w := newWorld()
	r := w.start(t, "one", nil)
	service := logs{lines: make(chan string)}
	path, handler := runtimev1connect.NewApplicationServiceHandler(service)
	mux := http.NewServeMux()
	mux.Handle("/app-proxy"+path, http.StripPrefix("/app-proxy", handler))
	w.join(t, "a", mux, nil, r).await(t, 2)
	client := runtimev1connect.NewApplicationServiceClient(&http.Client{Transport: r.Transport("a")}, "http://any.test/app-proxy")
	received := make(chan string)
	go func() {
		defer close(received)
		stream, err := client.Logs(t.Context(), connect.NewRequest(&runtimev1.LogsRequest{}))
		if err != nil {
			t.Error(err)
			return
		}
		for stream.Receive() {
			received <- stream.Msg().GetLine()
		}
		if err := errors.Join(stream.Err(), stream.Close()); err != nil {
			t.Error(err)
		}
	}()
	for i := range 3 {
		line := fmt.Sprint("line ", i)
		service.lines <- line
		if got := <-received; got != line {
			t.Errorf("%q; want %q", got, line)
		}
	}
	close(service.lines)
	if line, more := <-received; more {
		t.Errorf("one message too many: %q", line)
	}
}

// A WebSocket goes through the tunnel in both directions, also by way of another
// replica.
func TestWebSocketThroughTunnel(t *testing.T) {
	w := newWorld()
	one, two := w.start(t, "one", nil), w.start(t, "two", nil)
	w.join(t, "a", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		socket, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = socket.CloseNow() }()
		for {
			kind, text, err := socket.Read(r.Context())
			if err != nil || socket.Write(r.Context(), kind, append([]byte("echo "), text...)) != nil {
				return
			}
		}
	}), nil, one).await(t, 2)
	programs.Until(t, "two knows one", func() bool { return len(two.TunnelURLs()) == 2 })
	for name, r := range map[string]*replica{"direct": one, "through a peer": two} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
			defer cancel()
			socket, _, err := websocket.Dial(ctx, "ws://any.test/app-proxy/socket",
				&websocket.DialOptions{HTTPClient: &http.Client{Transport: r.Transport("a")}})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = socket.CloseNow() }()
			for i := range 10 {
				message := fmt.Sprint("message ", i)
				if err := socket.Write(ctx, websocket.MessageText, []byte(message)); err != nil {
					t.Fatal(err)
				}
				if _, got, err := socket.Read(ctx); err != nil || string(got) != "echo "+message {
					t.Fatalf("%q, %v", got, err)
				}
			}
		})
	}
}
