package edge_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"slipway.dev/slipway/internal/edge"
	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/route"
)

// talkative is a gRPC service: it responds, fails, counts and converses.
type talkative struct{}

func (talkative) say(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	in := new(wrapperspb.StringValue)
	if err := decode(in); err != nil {
		return nil, err
	}
	if why, bad := strings.CutPrefix(in.Value, "fail "); bad {
		return nil, status.Error(codes.FailedPrecondition, why)
	}
	if err := grpc.SetTrailer(ctx, metadata.Pairs("x-trailer", "seen")); err != nil {
		return nil, err
	}
	return wrapperspb.String("you said " + in.Value), nil
}

func (talkative) converse(_ any, stream grpc.ServerStream) error {
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

// grpcBackend serves it without TLS.
func grpcBackend(t *testing.T) net.Addr {
	t.Helper()
	listener := programs.Listen(t, "")
	server := grpc.NewServer()
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test.Talkative", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Say", Handler: talkative{}.say}},
		Streams: []grpc.StreamDesc{{StreamName: "Converse", Handler: talkative{}.converse, ServerStreams: true, ClientStreams: true}},
	}, talkative{})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Errorf("the gRPC server: %v", err)
		}
	})
	return listener.Addr()
}

// TestGRPC: calls, errors, trailers and conversations pass, with and without
// TLS in front.
func TestGRPC(t *testing.T) {
	authority := pkitest.NewAuthority(t)
	table := tableFor(grpcBackend(t).(*net.TCPAddr).AddrPort())
	table.Backends[0].Transport.Protocol = route.ProtocolH2C
	table.Certificates = []*route.Certificate{certificate(t, authority, "a", "a.example")}
	s := startAt(t, table, edge.DefaultEntryPoint("web", "127.0.0.1:0"), secure("websecure"))
	for i, secured := range []credentials.TransportCredentials{
		insecure.NewCredentials(), credentials.NewTLS(&tls.Config{RootCAs: authority.Pool, ServerName: "a.example"}),
	} {
		t.Run(secured.Info().SecurityProtocol, func(t *testing.T) {
			conn := must.Get(grpc.NewClient("passthrough:///"+s.Addresses()[i].String(), grpc.WithTransportCredentials(secured)))(t)
			defer conn.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			checkCalls(t, ctx, conn)
			checkConversation(t, ctx, conn)
		})
	}
}

func checkCalls(t *testing.T, ctx context.Context, conn *grpc.ClientConn) {
	t.Helper()
	var out wrapperspb.StringValue
	var trailer metadata.MD
	must.Do(t, conn.Invoke(ctx, "/test.Talkative/Say", wrapperspb.String("hello"), &out, grpc.Trailer(&trailer)))
	if out.Value != "you said hello" || len(trailer.Get("x-trailer")) != 1 {
		t.Errorf("got %q, trailers %v", out.Value, trailer)
	}
	err := conn.Invoke(ctx, "/test.Talkative/Say", wrapperspb.String("fail on purpose"), &out)
	if got := status.Convert(err); got.Code() != codes.FailedPrecondition || got.Message() != "on purpose" {
		t.Errorf("an error came as %v", err)
	}
	if err := conn.Invoke(ctx, "/test.Talkative/Nothing", wrapperspb.String(""), &out); status.Code(err) != codes.Unimplemented {
		t.Errorf("an unknown method came as %v", err)
	}
}

// checkConversation takes turns: each side waits for the other, so nothing may
// be held back.
func checkConversation(t *testing.T, ctx context.Context, conn *grpc.ClientConn) {
	t.Helper()
	stream := must.Get(conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/test.Talkative/Converse"))(t)
	for turn := range 50 {
		text := fmt.Sprint("turn ", turn)
		must.Do(t, stream.SendMsg(wrapperspb.String(text)))
		var out wrapperspb.StringValue
		if err := stream.RecvMsg(&out); err != nil || out.Value != "heard "+text {
			t.Fatalf("got %q %v", out.Value, err)
		}
	}
	must.Do(t, stream.CloseSend())
	if err := stream.RecvMsg(new(wrapperspb.StringValue)); !errors.Is(err, io.EOF) {
		t.Errorf("the conversation ended with %v", err)
	}
}
