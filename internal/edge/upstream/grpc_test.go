package upstream_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// The messages of the service under test are those of the health service: a
// request has a text, and a response has a number.
type (
	question = grpc_health_v1.HealthCheckRequest
	reply    = grpc_health_v1.HealthCheckResponse
)

// counting is a service of gRPC with the three kinds of methods. It responds
// with the length of the text.
var counting = grpc.ServiceDesc{
	ServiceName: "shop.Counting",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "One", Handler: func(_ any, _ context.Context, read func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		var asked question
		if err := read(&asked); err != nil {
			return nil, err
		}
		if asked.Service == "" {
			return nil, status.Error(codes.InvalidArgument, "there is no text")
		}
		return number(&asked), nil
	}}},
	Streams: []grpc.StreamDesc{
		{StreamName: "Down", ServerStreams: true, Handler: func(_ any, stream grpc.ServerStream) error {
			var asked question
			if err := stream.RecvMsg(&asked); err != nil {
				return err
			}
			for range asked.Service {
				if err := stream.SendMsg(number(&asked)); err != nil {
					return err
				}
			}
			return nil
		}},
		{StreamName: "Both", ServerStreams: true, ClientStreams: true, Handler: func(_ any, stream grpc.ServerStream) error {
			for {
				var asked question
				if err := stream.RecvMsg(&asked); err == io.EOF {
					return nil
				} else if err != nil {
					return err
				}
				if err := stream.SendMsg(number(&asked)); err != nil {
					return err
				}
			}
		}},
	},
}

func number(asked *question) *reply {
	return &reply{Status: grpc_health_v1.HealthCheckResponse_ServingStatus(len(asked.Service))}
}

// newCounting serves it.
func newCounting(t *testing.T) string {
	t.Helper()
	listener := listen(t, "127.0.0.1:0")
	server := grpc.NewServer()
	server.RegisterService(&counting, nil)
	programs.Background(t, func() { _ = server.Serve(listener) }, server.Stop)
	return listener.Addr().String()
}

// asMessage is a question as gRPC sends it.
func asMessage(text string) []byte {
	body := append([]byte{1<<3 | 2, byte(len(text))}, text...)
	if text == "" {
		body = nil
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)
}

// readReply reads one message and gives its number.
func readReply(r io.Reader) (int, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, err
	}
	body := make([]byte, binary.BigEndian.Uint32(head[1:]))
	if _, err := io.ReadFull(r, body); err != nil {
		return 0, err
	}
	if len(body) < 2 {
		return 0, nil
	}
	value, _ := binary.Uvarint(body[1:])
	return int(value), nil
}

func callHead(method string) string {
	return "POST /shop.Counting/" + method + " HTTP/1.1\r\nHost: cart\r\nContent-Type: application/grpc\r\nTE: trailers\r\nConnection: TE\r\n"
}

// caught is a connection that keeps what is written to it.
type caught struct {
	net.Conn
	strings.Builder
}

// Write keeps b.
func (c *caught) Write(b []byte) (int, error) { return c.Builder.Write(b) }

// SetWriteDeadline does nothing: all is taken at once.
func (c *caught) SetWriteDeadline(time.Time) error { return nil }

// TestGRPC: calls of every kind, through the edge's codec.
func TestGRPC(t *testing.T) {
	address := newCounting(t)
	w := newWorld(t, upstream.Config{})
	w.serve(h2cart(address))
	long := strings.Repeat("x", 100)
	for _, test := range []struct {
		name, method, text string
		framing            h1.Framing
		replies            int
		status             string
		message            string
	}{
		{"unary", "One", "four", h1.Chunked, 1, "0", ""},
		{"error", "One", "", h1.Fixed, 0, "3", "there is no text"},
		{"unknown", "Other", "four", h1.Fixed, 0, "12", "unknown method Other for service shop.Counting"},
		{"serverStream", "Down", long, h1.Chunked, 100, "0", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			lease := pick(t, w.Handle(shop), upstream.PickOptions{})
			defer lease.Done(upstream.OK)
			conn := connect(t, &lease)
			defer conn.Release()
			message := asMessage(test.text)
			request := append([]byte(callHead(test.method)+"Transfer-Encoding: chunked\r\n\r\n"), chunk(message)...)
			must.Get(conn.Writer.Write(h1.AppendLastChunk(request, nil)))(t)
			var head h1.ResponseHead
			must.Do(t, conn.Reader.ReadResponse(&head, h1.RequestInfo{}, conn.Limits))
			var body h1.Body
			body.Reset(head.Framing, head.Length, true, conn.Limits)
			got := &caught{}
			must.Do(t, (&h1.Transfer{From: conn.Reader, To: h1.NewWriter(got, new(h1.BufferPool), h1.Timeouts{}), Body: &body}).Run())
			fields := &body.Trailers
			if test.replies == 0 {
				fields = &head.Fields
			}
			code, _ := fields.Find("grpc-status")
			text, _ := fields.Find("grpc-message")
			if head.Status != 200 || head.Framing != test.framing || string(code) != test.status || string(text) != test.message {
				t.Errorf("status %d, framing %d, status of gRPC %q, message %q; want %+v", head.Status, head.Framing, code, text, test)
			}
			answers := strings.NewReader(got.String())
			for i := range test.replies {
				if value, err := readReply(answers); err != nil || value != len(test.text) {
					t.Fatalf("reply %d is %d, %v; want %d", i, value, err, len(test.text))
				}
			}
			if answers.Len() > 0 {
				t.Errorf("%d bytes are left", answers.Len())
			}
		})
	}
	if got := w.state(t, address).Open; got != 1 {
		t.Errorf("%d connections, want 1", got)
	}
}

// TestGRPCBothWays: each message gets its response before the next is sent.
func TestGRPCBothWays(t *testing.T) {
	address := newCounting(t)
	w := newWorld(t, upstream.Config{})
	w.serve(h2cart(address))
	lease := pick(t, w.Handle(shop), upstream.PickOptions{})
	defer lease.Done(upstream.OK)
	conn := connect(t, &lease)
	defer conn.Release()
	say := func(text []byte) {
		t.Helper()
		must.Get(conn.Writer.Write(text))(t)
	}
	say([]byte(callHead("Both") + "Transfer-Encoding: chunked\r\n\r\n"))
	// The server responds to the first message, so its head comes with that.
	say(chunk(asMessage("x")))
	response := must.Get(http.ReadResponse(bufio.NewReader(conn.NetConn()), nil))(t)
	defer response.Body.Close()
	for i := 1; i <= 50; i++ {
		if value, err := readReply(response.Body); err != nil || value != i {
			t.Fatalf("reply %d, %v; want %d", value, err, i)
		}
		if i < 50 {
			say(chunk(asMessage(strings.Repeat("x", i+1))))
		}
	}
	say(h1.AppendLastChunk(nil, nil))
	rest, err := io.ReadAll(response.Body)
	if err != nil || len(rest) > 0 || response.Trailer.Get("Grpc-Status") != "0" {
		t.Errorf("at the end: %d bytes, %v, trailers %v", len(rest), err, fmt.Sprint(response.Trailer))
	}
}

func chunk(data []byte) []byte { return fmt.Appendf(nil, "%x\r\n%s\r\n", len(data), data) }
