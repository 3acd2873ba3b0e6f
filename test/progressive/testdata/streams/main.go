// The program streams serves HTTP, WebSockets and gRPC, as an application does that is
// released: after SIGTERM it is not ready, and ends when its clients have left.
package main

import (
	"context"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	// leaving is how long it serves after SIGTERM, until edges know that it is not ready.
	leaving = 3 * time.Second
	// draining bounds the wait for requests.
	draining = 15 * time.Second
)

type server struct {
	version  string
	stopping atomic.Bool
	sockets  sync.WaitGroup
}

func main() {
	s := &server{version: os.Getenv("VERSION")}
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	web := &http.Server{Addr: ":8080", Handler: s, ReadHeaderTimeout: draining}
	go func() { log.Print(web.ListenAndServe()) }()
	listener, err := net.Listen("tcp", ":8081")
	if err != nil {
		log.Fatal(err)
	}
	calls := grpc.NewServer()
	calls.RegisterService(&grpc.ServiceDesc{
		ServiceName: "shop.Echo", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{MethodName: "Say", Handler: s.say}},
	}, s)
	go func() { log.Print(calls.Serve(listener)) }()

	<-stop.Done()
	s.stopping.Store(true)
	time.Sleep(leaving)
	ctx, end := context.WithTimeout(context.Background(), draining)
	defer end()
	var ended sync.WaitGroup
	ended.Go(calls.GracefulStop)
	ended.Go(s.sockets.Wait)
	if err := web.Shutdown(ctx); err != nil {
		log.Print(err)
	}
	ended.Wait()
}

// ServeHTTP responds with the version; /echo is a WebSocket.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Slipway-Version", s.version)
	switch {
	case r.URL.Path == "/readyz" && s.stopping.Load():
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.URL.Path == "/echo":
		s.sockets.Add(1)
		defer s.sockets.Done()
		s.echo(w, r)
	}
}

// echo sends back what a client sends, until that closes the WebSocket.
func (s *server) echo(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return
	}
	defer func() { _ = conn.CloseNow() }()
	for {
		kind, text, err := conn.Read(r.Context())
		if err != nil || conn.Write(r.Context(), kind, text) != nil {
			return
		}
	}
}

// say is a method of gRPC that responds with its request.
func (s *server) say(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	in := new(wrapperspb.StringValue)
	if err := decode(in); err != nil {
		return nil, err
	}
	return in, nil
}
