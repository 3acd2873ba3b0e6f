package ingress

import (
	"bufio"
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// echoMethod is the method of gRPC pods: it responds with what a pod reports of a
// request.
const (
	echoService = "churn.Echo"
	echoMethod  = "Say"
)

// serveGRPC is the protocol gRPC, without TLS.
func serveGRPC(p *pod) (func(context.Context) error, func(), error) {
	listener, err := net.Listen("tcp", p.listensAt())
	if err != nil {
		return nil, nil, err
	}
	server, done := grpc.NewServer(), make(chan struct{})
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: echoService, HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{MethodName: echoMethod, Handler: p.say}},
	}, p)
	go func() {
		defer close(done)
		_ = server.Serve(listener) // it ends when it is stopped
	}()
	cut := func() {
		server.Stop()
		<-done
	}
	return func(ctx context.Context) error {
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			server.GracefulStop()
		}()
		select {
		case <-drained:
		case <-ctx.Done():
		}
		cut()
		<-drained
		return ctx.Err()
	}, cut, nil
}

// say is the method of gRPC pods.
func (p *pod) say(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	p.note()
	in := new(wrapperspb.StringValue)
	if err := decode(in); err != nil {
		return nil, err
	}
	host := ""
	if received, _ := metadata.FromIncomingContext(ctx); len(received.Get(":authority")) > 0 {
		host = received.Get(":authority")[0]
	}
	return wrapperspb.String(string(p.echo(host, in.Value))), nil
}

// serveLines is a protocol of lines over TCP: the response to each is a line.
func serveLines(p *pod) (func(context.Context) error, func(), error) {
	listener, err := net.Listen("tcp", p.listensAt())
	if err != nil {
		return nil, nil, err
	}
	return p.serveConns(listener)
}

// serveTLS is serveLines over TLS, with a certificate.
func serveTLS(certificate tls.Certificate) protocol {
	return func(p *pod) (func(context.Context) error, func(), error) {
		listener, err := tls.Listen("tcp", p.listensAt(), &tls.Config{Certificates: []tls.Certificate{certificate}})
		if err != nil {
			return nil, nil, err
		}
		return p.serveConns(listener)
	}
}

// serveConns serves the connections of a listener. They are short, and a pod that has
// left for long has none; one that is open nevertheless is cut, which its client
// notices.
func (p *pod) serveConns(listener net.Listener) (func(context.Context) error, func(), error) {
	var mu sync.Mutex
	var serving sync.WaitGroup
	conns := map[net.Conn]struct{}{}
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // it was closed
			}
			mu.Lock()
			conns[conn] = struct{}{}
			mu.Unlock()
			serving.Go(func() {
				p.respond(conn)
				mu.Lock()
				defer mu.Unlock()
				delete(conns, conn)
			})
		}
	})
	cut := func() {
		_ = listener.Close()
		mu.Lock()
		for conn := range conns {
			_ = conn.Close()
		}
		mu.Unlock()
		serving.Wait()
	}
	return func(context.Context) error {
		cut()
		return nil
	}, cut, nil
}

// respond responds to the lines of a connection.
func (p *pod) respond(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		p.note()
		if _, err := conn.Write(append(p.echo("", lines.Text()), '\n')); err != nil {
			return
		}
	}
}

// serveDatagrams is a protocol over UDP: the response to a datagram is a datagram.
func serveDatagrams(p *pod) (func(context.Context) error, func(), error) {
	socket, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(p.address, podPort)))
	if err != nil {
		return nil, nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1<<10)
		for {
			n, from, err := socket.ReadFromUDPAddrPort(buf)
			if err != nil {
				return // it was closed
			}
			p.note()
			_, _ = socket.WriteToUDPAddrPort(p.echo("", string(buf[:n])), from)
		}
	}()
	cut := func() {
		_ = socket.Close()
		<-done
	}
	return func(context.Context) error {
		cut()
		return nil
	}, cut, nil
}
