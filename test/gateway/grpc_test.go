package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// serveHealth serves the health checks of gRPC at an address until the end of the test. It
// returns the calls as they come: the method, and the service that is asked for.
func serveHealth(t *testing.T, address string) chan string {
	t.Helper()
	calls := make(chan string, 100)
	server := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		check, _ := request.(*healthv1.HealthCheckRequest)
		select {
		case calls <- info.FullMethod + " " + check.GetService():
		default: // of a backend whose calls are not read
		}
		return handle(ctx, request)
	}))
	healthv1.RegisterHealthServer(server, health.NewServer())
	listener := must.Get(net.Listen("tcp", net.JoinHostPort(address, "8080")))(t)
	programs.Background(t, func() { _ = server.Serve(listener) }, server.Stop)
	return calls
}

// TestGRPCRoute: a call reaches the backend of its method, a stream included, and a mirror
// gets a copy; a method that no rule has is unimplemented.
func TestGRPCRoute(t *testing.T) {
	s := newScene(t, shared(t))
	serveHealth(t, backendC)
	copies := serveHealth(t, backendD)
	s.Apply(t, s.namespace, kubetest.Backend("c", backendC)+"---\n"+kubetest.Backend("d", backendD)+"---\n"+grpcRoute)
	gateway := s.programmed(t, "calls")
	conn := must.Get(grpc.NewClient(net.JoinHostPort(gateway.Status.Addresses[0].Value, "80"),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("grpc.example.com")))(t)
	t.Cleanup(func() { conn.Close() })
	client := healthv1.NewHealthClient(conn)
	programs.Eventually(t, func(ctx context.Context) error {
		_, err := client.Check(ctx, &healthv1.HealthCheckRequest{})
		return err
	})
	for i := range 3 {
		service := fmt.Sprintf("unknown-%d", i)
		if _, err := client.Check(t.Context(), &healthv1.HealthCheckRequest{Service: service}); status.Code(err) != codes.NotFound {
			t.Errorf("a call that is mirrored gets %v", err)
		}
		want := "/grpc.health.v1.Health/Check " + service
		programs.Eventually(t, func(context.Context) error {
			select {
			case got := <-copies:
				if got == want {
					return nil
				}
				return fmt.Errorf("the mirror got %q, want %q", got, want)
			default:
				return errors.New("the mirror got nothing")
			}
		})
	}
	stream := must.Get(client.Watch(t.Context(), &healthv1.HealthCheckRequest{}))(t)
	if got := must.Get(stream.Recv())(t); got.Status != healthv1.HealthCheckResponse_SERVING {
		t.Errorf("the stream begins with %s", got.Status)
	}
	if _, err := client.List(t.Context(), &healthv1.HealthListRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("a method without a rule gets %v", err)
	}
}

const grpcRoute = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: calls}
spec:
  gatewayClassName: slipway
  listeners: [{name: grpc, port: 80, protocol: HTTP, allowedRoutes: {kinds: [{kind: GRPCRoute}]}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: calls}
spec:
  parentRefs: [{name: calls}]
  hostnames: [grpc.example.com]
  rules:
  - matches: [{method: {service: grpc.health.v1.Health, method: Check}}]
    filters: [{type: RequestMirror, requestMirror: {backendRef: {name: d, port: 80}}}]
    backendRefs: [{name: c, port: 80}]
  - matches: [{method: {method: Watch}}]
    backendRefs: [{name: c, port: 80}]
`
