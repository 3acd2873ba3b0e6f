package nginx

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// greeter is the application of examples/grpc. It greets, fails on request, and has a
// stream in both directions.
type greeter struct{}

func (greeter) sayHello(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	in := new(wrapperspb.StringValue)
	if err := decode(in); err != nil {
		return nil, err
	}
	if why, failing := strings.CutPrefix(in.Value, "fail "); failing {
		return nil, status.Error(codes.FailedPrecondition, why)
	}
	sent, _ := metadata.FromIncomingContext(ctx)
	if err := grpc.SetTrailer(ctx, metadata.Pairs("x-trailer", fmt.Sprintf("length %d", len(in.Value)))); err != nil {
		return nil, err
	}
	return wrapperspb.String(fmt.Sprintf("Hello %s, with %v", in.Value, sent.Get("x-user"))), nil
}

func (greeter) converse(_ any, stream grpc.ServerStream) error {
	for {
		in := new(wrapperspb.StringValue)
		if err := stream.RecvMsg(in); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := stream.SendMsg(wrapperspb.String("heard " + in.Value)); err != nil {
			return err
		}
	}
}

// startGreeter starts the application, without TLS, and returns its port.
func startGreeter(t *testing.T) int {
	t.Helper()
	listener := programs.Listen(t, "")
	server := grpc.NewServer()
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "helloworld.Greeter", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "SayHello", Handler: greeter{}.sayHello}},
		Streams: []grpc.StreamDesc{{StreamName: "Converse", Handler: greeter{}.converse, ServerStreams: true, ClientStreams: true}},
	}, greeter{})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		<-ended
	})
	return listener.Addr().(*net.TCPAddr).Port
}

// TestGRPC is examples/grpc: TLS ends at the edge, and calls reach the application with
// their metadata, errors, trailers and streams as they do with grpc_pass of nginx.
func TestGRPC(t *testing.T) {
	const host, secret, service = "grpctest.dev.mydomain.com", "wildcard-dev", "go-grpc-greeter-server"
	g := startBackends(t)
	g.ports[service] = startGreeter(t)
	ingress := ingressOf(0, "fortune-ingress", map[string]string{nginx.Prefix + "ssl-redirect": "true", nginx.Prefix + "backend-protocol": "GRPC"})
	ingress.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{host}, SecretName: secret}}
	addPath(ingress, host, "/", networkingv1.PathTypePrefix, service)
	all := []*networkingv1.Ingress{ingress}
	secrets := g.encrypt(t, all)
	g.startNGINX(t, "", fmt.Sprintf(`server { listen LISTEN; server_name %[1]s; location / { %[4]s } }
		server { listen LISTEN_TLS http2; server_name %[1]s; ssl_certificate TLS_DIR/%[2]s.crt; ssl_certificate_key TLS_DIR/%[2]s.key;
			location / { grpc_set_header Host $http_host; grpc_pass grpc://127.0.0.1:%[3]d; } }`, host, secret, g.ports[service], toTLS(false)))
	for _, refused := range g.startEdge(t, all, secrets...) {
		t.Errorf("refused: %s", refused)
	}
	want, got := g.grpcCalls(t, g.nginx, host), g.grpcCalls(t, g.edge, host)
	if !slices.Equal(got, want) {
		t.Errorf("\nedge  %q\nnginx %q", got, want)
	}
	if !slices.Contains(got, `Hello you, with [anna] [length 3] <nil>`) {
		t.Errorf("the call of the documentation gives %q", got)
	}
	for _, target := range []string{"/", "/helloworld.Greeter/SayHello"} {
		r := request{method: http.MethodPost, host: host, target: target, size: 5}
		want, got := must.Get(g.send(g.nginx, r))(t), must.Get(g.send(g.edge, r))(t)
		if !got.agrees(want) || got.Status != http.StatusPermanentRedirect {
			t.Errorf("%s\n\tedge  %+v\n\tnginx %+v", r, got, want)
		}
	}
}

// grpcCalls returns the results of calls.
func (g *ground) grpcCalls(t *testing.T, address, host string) (results []string) {
	t.Helper()
	secured := credentials.NewTLS(&tls.Config{RootCAs: g.tls.authority.Pool, ServerName: host})
	conn := must.Get(grpc.NewClient("passthrough:///"+g.tls.addresses[address], grpc.WithTransportCredentials(secured)))(t)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "x-user", "anna")
	for _, call := range [][2]string{
		{"SayHello", "you"}, {"SayHello", ""}, {"SayHello", strings.Repeat("long ", 20000)}, {"SayHello", "fail on purpose"}, {"SayNothing", "you"},
	} {
		var out wrapperspb.StringValue
		var trailer metadata.MD
		err := conn.Invoke(ctx, "/helloworld.Greeter/"+call[0], wrapperspb.String(call[1]), &out, grpc.Trailer(&trailer))
		results = append(results, fmt.Sprintf("%s %v %v", out.Value, trailer.Get("x-trailer"), err))
	}
	stream := must.Get(conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/helloworld.Greeter/Converse"))(t)
	for _, text := range []string{"one", "two", "three"} {
		var out wrapperspb.StringValue
		must.Do(t, stream.SendMsg(wrapperspb.String(text)))
		must.Do(t, stream.RecvMsg(&out))
		results = append(results, out.Value)
	}
	must.Do(t, stream.CloseSend())
	return append(results, fmt.Sprint(stream.RecvMsg(new(wrapperspb.StringValue))))
}

// chat is an application with WebSockets. It repeats messages, and closes on request.
func chat(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/chat" {
		http.Error(w, "there is no chat", http.StatusForbidden)
		return
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"v2", "v1"}})
	if err != nil {
		return
	}
	defer conn.CloseNow()
	conn.SetReadLimit(1 << 20)
	for {
		kind, text, err := conn.Read(r.Context())
		if err != nil {
			return
		}
		if string(text) == "close" {
			_ = conn.Close(4001, "on request")
			return
		}
		if err := conn.Write(r.Context(), kind, append([]byte("heard "), text...)); err != nil {
			return
		}
	}
}

// TestWebSockets is the section about WebSockets of user-guide/miscellaneous: they need no
// annotation, and the timeouts that it recommends change nothing else.
func TestWebSockets(t *testing.T) {
	const host = "ws.foo.org"
	g := startBackends(t)
	g.ports["chat"] = startServer(t, http.HandlerFunc(chat))
	ingress := ingressOf(0, "chat", map[string]string{nginx.Prefix + "proxy-read-timeout": "3600", nginx.Prefix + "proxy-send-timeout": "3600"})
	addPath(ingress, host, "/", networkingv1.PathTypePrefix, "chat")
	g.startNGINX(t, `map $http_upgrade $connection_upgrade { default upgrade; "" ""; }`, fmt.Sprintf(`server { listen LISTEN; server_name %s; location / {
		proxy_read_timeout 3600s; proxy_send_timeout 3600s; proxy_set_header Host $http_host; proxy_set_header Upgrade $http_upgrade;
		proxy_set_header Connection $connection_upgrade; proxy_pass http://127.0.0.1:%d; } }`, host, g.ports["chat"]))
	for _, refused := range g.startEdge(t, []*networkingv1.Ingress{ingress}) {
		t.Errorf("refused: %s", refused)
	}
	want, got := conversation(t, g.nginx, host), conversation(t, g.edge, host)
	if !slices.Equal(got, want) {
		t.Errorf("\nedge  %q\nnginx %q", got, want)
	}
	if !slices.Contains(got, "closed with 4001") {
		t.Errorf("the conversation is %q", got)
	}
}

// conversation returns what a client of the chat sees.
func conversation(t *testing.T, address, host string) (seen []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	options := &websocket.DialOptions{Host: host, Subprotocols: []string{"v1"}}
	_, refused, err := websocket.Dial(ctx, "ws://"+address+"/other", options)
	if err == nil || refused == nil {
		t.Fatalf("the application accepts all paths: %v", err)
	}
	seen = append(seen, refused.Status)
	conn, response, err := websocket.Dial(ctx, "ws://"+address+"/chat", options)
	must.Do(t, err)
	defer conn.CloseNow()
	conn.SetReadLimit(1 << 20)
	seen = append(seen, response.Status, conn.Subprotocol())
	for _, message := range []struct {
		kind websocket.MessageType
		text string
	}{{websocket.MessageText, "hello"}, {websocket.MessageBinary, "\x00\xff"}, {websocket.MessageText, strings.Repeat("long ", 50000)}, {websocket.MessageText, ""}} {
		must.Do(t, conn.Write(ctx, message.kind, []byte(message.text)))
		kind, text, err := conn.Read(ctx)
		must.Do(t, err)
		seen = append(seen, fmt.Sprint(kind, len(text), string(text[:min(len(text), 20)])))
	}
	must.Do(t, conn.Write(ctx, websocket.MessageText, []byte("close")))
	_, _, err = conn.Read(ctx)
	return append(seen, fmt.Sprintf("closed with %d", websocket.CloseStatus(err)))
}
