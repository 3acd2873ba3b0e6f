package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	// unaryMethod and streamMethod are served by one handler, which sends every
	// message back.
	unaryMethod  = "/bench.Echo/Unary"
	streamMethod = "/bench.Echo/Stream"
	// echoTime bounds one message with its echo.
	echoTime = 10 * time.Second
)

var (
	// echoText is the content of every message.
	echoText = strings.Repeat("x", smallBody)
	// grpcMessage is a message with echoText as gRPC frames it: one byte, four of
	// the length, and a field of bytes with a length of two bytes.
	grpcMessage = "\x00\x00\x00\x00\x83\x0a\x80\x01" + echoText
)

var errEcho = errors.New("the echo is not what was sent")

// startEcho serves a protocol that the backend's nginx does not have, in this
// process: its cost does not count.
func startEcho(serve func(net.Listener) (stop func())) (stop func(), address string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return func() {}, "", err
	}
	return serve(listener), listener.Addr().String(), nil
}

// serveGRPC sends messages back, of unary calls and of streams.
func serveGRPC(listener net.Listener) (stop func()) {
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		message := new(wrapperspb.BytesValue)
		for {
			if err := stream.RecvMsg(message); err != nil {
				if errors.Is(err, io.EOF) {
					return nil
				}
				return err
			}
			if err := stream.SendMsg(message); err != nil {
				return err
			}
		}
	}))
	go func() { _ = server.Serve(listener) }() // it ends with stop
	return server.Stop
}

// serveWebSockets sends messages back.
func serveWebSockets(listener net.Listener) (stop func()) {
	server := &http.Server{ReadHeaderTimeout: echoTime, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer conn.CloseNow()
		for {
			kind, message, err := conn.Read(r.Context())
			if err != nil || conn.Write(r.Context(), kind, message) != nil {
				return
			}
		}
	})}
	go func() { _ = server.Serve(listener) }() // it ends with stop
	return func() { _ = server.Close() }
}

// dialGRPC connects through a proxy.
func dialGRPC(at *site) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+at.address,
		grpc.WithTransportCredentials(credentials.NewClientTLSFromCert(at.tls.trust, at.requested().host)),
		grpc.WithAuthority(at.requested().host))
}

// checkGRPC makes a unary call and a stream with one message.
func checkGRPC(ctx context.Context, at *site) error {
	ctx, cancel := context.WithTimeout(ctx, echoTime)
	defer cancel()
	conn, err := dialGRPC(at)
	if err != nil {
		return err
	}
	defer conn.Close()
	out := new(wrapperspb.BytesValue)
	if err := conn.Invoke(ctx, unaryMethod, wrapperspb.Bytes([]byte(echoText)), out); err != nil {
		return err
	}
	if string(out.Value) != echoText {
		return errEcho
	}
	send, end, err := openStream(ctx, conn)
	if err != nil {
		return err
	}
	return errors.Join(send(), end())
}

// openStream returns a function that sends a message and waits for its echo, and
// one that ends the stream.
func openStream(ctx context.Context, conn *grpc.ClientConn) (send, end func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, streamMethod)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	in, out := wrapperspb.Bytes([]byte(echoText)), new(wrapperspb.BytesValue)
	send = func() error {
		if err := stream.SendMsg(in); err != nil {
			return err
		}
		if err := stream.RecvMsg(out); err != nil {
			return err
		}
		if string(out.Value) != echoText {
			return errEcho
		}
		return nil
	}
	end = func() error {
		defer cancel()
		if err := stream.CloseSend(); err != nil {
			return err
		}
		if err := stream.RecvMsg(out); !errors.Is(err, io.EOF) {
			return errors.Join(errEcho, err)
		}
		return nil
	}
	return send, end, nil
}

// openWebSocket returns a function that sends a message and waits for its echo, and
// one that closes the connection.
func openWebSocket(ctx context.Context, at *site) (send, end func() error, err error) {
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, at.address)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial}}
	conn, _, err := websocket.Dial(ctx, "ws://"+at.requested().host+"/", &websocket.DialOptions{HTTPClient: client})
	if err != nil {
		return nil, nil, err
	}
	send = func() error {
		if err := conn.Write(ctx, websocket.MessageBinary, []byte(echoText)); err != nil {
			return err
		}
		_, message, err := conn.Read(ctx)
		if err == nil && string(message) != echoText {
			err = errEcho
		}
		return err
	}
	return send, conn.CloseNow, nil
}

// checkWebSocket sends one message.
func checkWebSocket(ctx context.Context, at *site) error {
	ctx, cancel := context.WithTimeout(ctx, echoTime)
	defer cancel()
	send, end, err := openWebSocket(ctx, at)
	if err != nil {
		return err
	}
	return errors.Join(send(), end())
}
