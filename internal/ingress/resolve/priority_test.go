package resolve_test

import (
	"math"
	"strconv"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/internal/ingress/resolve"
)

// TestRouterPriority: a number of Traefik's is compared with the length that the
// rules have there: 29 for Host(`a.com`) && Path(`/api`), 32 for
// Host(`a.com`) && PathPrefix(`/`).
func TestRouterPriority(t *testing.T) {
	exact := networkingv1.PathTypeExact
	for number, want := range map[int]int32{
		0: 0, 1: 1 - 1<<16, 28: 28 - 1<<16, 29: 0, 30: 0, 32: 0, 33: 33, 1000: 1000, math.MaxInt32: math.MaxInt32,
		-1: -1 - 1<<16, math.MinInt32: math.MinInt32,
	} {
		ingress := ingressOf("a.com")
		path := pathTo("/api", "app")
		path.PathType = &exact
		ingress.Spec.Rules[0].HTTP.Paths = append(ingress.Spec.Rules[0].HTTP.Paths, path)
		ingress.Annotations["traefik.ingress.kubernetes.io/router.priority"] = strconv.Itoa(number)
		site := resolved(snapshotOf(ingress, serviceOf("app")), resolve.Options{})
		wantTold(t, site)
		if site.Priority != want {
			t.Errorf("router.priority %d: priority %d, want %d", number, site.Priority, want)
		}
	}
	// Without a host, and with a path of any kind.
	ingress := ingressOf("")
	ingress.Annotations["traefik.ingress.kubernetes.io/router.priority"] = "15" // PathPrefix(`/`)
	if site := resolved(snapshotOf(ingress, serviceOf("app")), resolve.Options{}); site.Priority != 0 {
		t.Errorf("priority %d for its own length", site.Priority)
	}
	ingress = ingressOf("")
	ingress.Spec.Rules = nil
	backend := backendTo("app")
	ingress.Spec.DefaultBackend = &backend
	ingress.Annotations["traefik.ingress.kubernetes.io/router.priority"] = "15"
	if site := resolved(snapshotOf(ingress, serviceOf("app")), resolve.Options{}); site.Priority != 0 {
		t.Errorf("priority %d without a rule", site.Priority)
	}
}

// TestEncryption: TLS alone is refused where no entry point can have it.
func TestEncryption(t *testing.T) {
	const refused = "metadata.annotations[slipway.dev/tls] Invalid"
	points := map[string]bool{"web": false, "side": false, "websecure": true}
	for _, test := range []struct {
		names  string
		points map[string]bool
		want   []string
	}{
		{"", points, nil},
		{"", map[string]bool{"web": false}, []string{refused}},
		{"", nil, nil},
		{"web", points, []string{refused}},
		{"web,side", points, []string{refused}},
		{"web,websecure", points, nil},
		{"websecure", points, nil},
		{"web,other", points, nil},
	} {
		ingress := ingressOf("a.com")
		ingress.Annotations["slipway.dev/tls"] = "only"
		if test.names != "" {
			ingress.Annotations["slipway.dev/entry-points"] = test.names
		}
		wantTold(t, resolved(snapshotOf(ingress, serviceOf("app")), resolve.Options{EntryPoints: test.points}), test.want...)
	}
}
