package appproxy_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/agent/appproxy"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/preflight"
	"slipway.dev/slipway/internal/wire/runtimev1"
	"slipway.dev/slipway/internal/wire/runtimev1/runtimev1connect"
)

// checked has the checks look at the cluster of the test, for a runtime behind an
// Ingress whose class is not there.
func checked(options *appproxy.Options) {
	cluster, namespace := options.Cluster, options.ControlNamespace
	options.Preflight = func(context.Context) (preflight.World, preflight.Options, error) {
		return inquiry(cluster, namespace)
	}
}

func inquiry(cluster *kube.Cluster, namespace string) (preflight.World, preflight.Options, error) {
	return preflight.World{Cluster: cluster}, preflight.Options{Settings: mode.Settings{
		Runtime: "prod", Namespace: namespace,
		Ingress: mode.IngressSettings{Enabled: true, Hosts: []string{"127.0.0.1"}, ClassName: "no-such-class"},
	}}, nil
}

func received(t *testing.T, client runtimev1connect.RuntimeServiceClient, only ...string) ([]*runtimev1.PreflightResponse, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stream, err := client.Preflight(ctx, connect.NewRequest(&runtimev1.PreflightRequest{Only: only}))
	if err != nil {
		return nil, err
	}
	defer func() { _ = stream.Close() }()
	var all []*runtimev1.PreflightResponse
	for stream.Receive() {
		all = append(all, stream.Msg())
	}
	return all, stream.Err()
}

// The checks look at a real API server, and report what is wrong and how to fix it.
func TestPreflight(t *testing.T) {
	w := newWorld(t, checked)
	results := must.Get(received(t, w.runtime(t), "k8s-version", "P9", "P14"))(t)
	var codes []string
	for _, result := range results {
		codes = append(codes, result.GetCode())
		if result.GetTotal() != 3 || result.GetName() == "" {
			t.Errorf("%s is named %q, one of %d", result.GetCode(), result.GetName(), result.GetTotal())
		}
	}
	if want := []string{"P1", "P9", "P14"}; !slices.Equal(codes, want) {
		t.Fatalf("the checks are %v, want %v", codes, want)
	}
	if results[0].GetState() != "ok" || results[0].GetLooked() == "" {
		t.Errorf("the version of a good cluster is %s, looked at %q", results[0].GetState(), results[0].GetLooked())
	}
	if results[1].GetState() != "ok" {
		t.Errorf("the namespace of the runtime is %s: %v", results[1].GetState(), results[1].GetFindings())
	}
	class := results[2]
	if class.GetState() != "error" || len(class.GetFindings()) == 0 {
		t.Fatalf("a class that is not there is %s: %v", class.GetState(), class.GetFindings())
	}
	if finding := class.GetFindings()[0]; finding.GetSeverity() != "error" || finding.GetFix() == "" || !strings.Contains(finding.GetSubject()+finding.GetMessage(), "no-such-class") {
		t.Errorf("the finding is %v", finding)
	}
}

// What is about Git waits for credentials, and what is about the person who
// installs is not for a runtime.
func TestPreflightLeavesOut(t *testing.T) {
	w := newWorld(t, checked)
	results, err := received(t, w.runtime(t), "P4", "P11", "P22", "P25")
	if err != nil || len(results) != 0 {
		t.Errorf("%d checks ran: %v", len(results), err)
	}
}

func TestPreflightRefuses(t *testing.T) {
	w := newWorld(t, checked)
	user := runtimev1connect.NewRuntimeServiceClient(w.http(t, "operator"), w.address+"/app-proxy", readable())
	without := newWorld(t)
	for _, tt := range []struct {
		name   string
		client runtimev1connect.RuntimeServiceClient
		only   string
		want   connect.Code
	}{
		{"a user", user, "P1", connect.CodePermissionDenied},
		{"an unknown check", w.runtime(t), "P99", connect.CodeInvalidArgument},
		{"no checks", without.runtime(t), "P1", connect.CodeFailedPrecondition},
	} {
		_, err := received(t, tt.client, tt.only)
		var refused *connect.Error
		if !errors.As(err, &refused) || refused.Code() != tt.want {
			t.Errorf("%s is answered %v, want %v", tt.name, err, tt.want)
		}
	}
}
