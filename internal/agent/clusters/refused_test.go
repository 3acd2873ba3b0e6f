package clusters_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/agent/clusters"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// TestRefusedSecrets: a Secret that cannot be used explains why its cluster is
// not there, by address and by name, and Applications reconcile when that changes.
func TestRefusedSecrets(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	book := clusters.NewRegistry(log)
	moved := make(chan struct{}, 16)
	fleet := clusters.NewFleet(clusters.FleetOptions{
		Registry: book, Namespace: "argocd", Log: log,
		Changed: func(string, tracking.Key) {}, DestinationsChanged: func() { moved <- struct{}{} },
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = fleet.Run(ctx) })
	defer running.Wait()
	defer cancel()

	secret := func(name, cluster, server, config string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "argocd", Name: name, UID: types.UID(name), Labels: map[string]string{"argocd.argoproj.io/secret-type": "cluster"},
			},
			Data: map[string][]byte{"name": []byte(cluster), "server": []byte(server), "config": []byte(config)},
		}
	}
	book.Update([]*corev1.Secret{
		secret("exec", "cloud", "https://cloud.example:6443/", `{"execProviderConfig": {"command": "aws"}}`),
		secret("authority", "odd", "https://odd.example", `{"bearerToken": "x", "tlsClientConfig": {"caData": "bm90IGEgY2VydGlmaWNhdGU="}}`),
	})
	<-moved
	const exec = "its Secret argocd/exec is refused: the field config has a program run"
	for _, test := range []struct{ server, name, want string }{
		{"https://cloud.example:6443", "", exec},
		{"https://cloud.example:6443/", "", exec},
		{"", "cloud", exec},
		{"https://other.example", "cloud", ""}, // the address counts
		{"", "", ""},
		{"", "elsewhere", ""},
		{"", "odd", "its Secret argocd/authority is refused: "},
		{"https://odd.example", "", "its Secret argocd/authority is refused: "},
	} {
		got := fleet.Refusal(test.server, test.name)
		if len(got) < len(test.want) || got[:len(test.want)] != test.want || test.want == "" && got != "" {
			t.Errorf("%q %q: %q, want %q", test.server, test.name, got, test.want)
		}
	}
	book.Update([]*corev1.Secret{secret("exec", "cloud", "https://cloud.example:6443", `{}`)})
	<-moved
	if got := fleet.Refusal("", "cloud"); got != "its Secret argocd/exec is refused: the field config has neither a bearerToken nor a client certificate with its key" {
		t.Errorf("after a change: %q", got)
	}
	book.Update(nil)
	<-moved
	if got := fleet.Refusal("", "cloud"); got != "" {
		t.Errorf("a Secret that is gone is refused: %q", got)
	}
}
