package gateway

import (
	"context"
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

// TestGRPCRoute: a call reaches the backend of its method, a stream included; a method
// that no rule has is unimplemented.
func TestGRPCRoute(t *testing.T) {
	s := newScene(t, shared(t))
	server := grpc.NewServer()
	healthv1.RegisterHealthServer(server, health.NewServer())
	listener := must.Get(net.Listen("tcp", net.JoinHostPort(backendC, "8080")))(t)
	programs.Background(t, func() { _ = server.Serve(listener) }, server.Stop)
	s.Apply(t, s.namespace, kubetest.Backend("c", backendC)+"---\n"+grpcRoute)
	gateway := s.programmed(t, "calls")
	conn := must.Get(grpc.NewClient(net.JoinHostPort(gateway.Status.Addresses[0].Value, "80"),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("grpc.example.com")))(t)
	t.Cleanup(func() { conn.Close() })
	client := healthv1.NewHealthClient(conn)
	programs.Eventually(t, func(ctx context.Context) error {
		_, err := client.Check(ctx, &healthv1.HealthCheckRequest{})
		return err
	})
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
  - matches: [{method: {service: grpc.health.v1.Health, method: Check}}, {method: {method: Watch}}]
    backendRefs: [{name: c, port: 80}]
`
