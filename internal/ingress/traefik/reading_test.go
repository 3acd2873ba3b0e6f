package traefik_test

import (
	"testing"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/reference"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/traefik"
	"slipway.dev/slipway/internal/route"
)

// TestBasicAuthUsers: which lines of a Secret are the users. The cases in
// testdata cannot show them.
func TestBasicAuthUsers(t *testing.T) {
	const line = "ann:$apr1$H6uskkkW$IgXLP6ewTrSuBkTrqE8wj/\n"
	for _, test := range []struct {
		name, kind string
		data       map[string]string
		want       string
	}{
		{"users", "Opaque", map[string]string{"users": line, "other": "x"}, line},
		{"single", "Opaque", map[string]string{"auth": line}, line},
		{"pair", "kubernetes.io/basic-auth", map[string]string{"username": "ann", "password": "secret"},
			"ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n"},
		{"colon", "kubernetes.io/basic-auth", map[string]string{"username": "a:b", "password": "secret"}, ""},
		{"lines", "kubernetes.io/basic-auth", map[string]string{"username": "a\nb", "password": "secret"}, ""},
		{"comment", "kubernetes.io/basic-auth", map[string]string{"username": "#a", "password": "secret"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			cluster := snapshot.New()
			body := &snapshot.SecretBody{Namespace: "shop", Name: "users", Type: test.kind, Data: map[string][]byte{}}
			for field, text := range test.data {
				body.Data[field] = []byte(text)
			}
			cluster.Put(body)
			policies, faults := readMiddleware(cluster, map[string]any{"basicAuth": map[string]any{"secret": "users"}})
			if test.want == "" {
				if len(faults) != 1 || faults[0].Reason != refusal.Invalid {
					t.Errorf("faults %v", faults)
				}
				return
			}
			if len(faults) > 0 || len(policies) != 1 {
				t.Fatalf("%v, faults %v", policies, faults)
			}
			if got := policies[0].BasicAuth.Users.Reveal(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func readMiddleware(cluster *snapshot.Snapshot, spec map[string]any) ([]route.Policy, []refusal.Refusal) {
	object := &snapshot.Resource{Kind: snapshot.TraefikMiddleware, Namespace: "shop", Name: "it", Spec: spec}
	return traefik.Middleware(object, reference.Source{View: cluster.View(), Namespace: "elsewhere"})
}

// TestReadsAreRemembered: what a Middleware names is read through the view, so
// that a change of it is noticed. Names are those of the object's namespace,
// no matter which object refers to it.
func TestReadsAreRemembered(t *testing.T) {
	cluster := snapshot.New()
	cluster.SetKind(snapshot.TraefikMiddleware, snapshot.KindKnown)
	view := cluster.View()
	object := &snapshot.Resource{
		Kind: snapshot.TraefikMiddleware, Namespace: "shop", Name: "it",
		Spec: map[string]any{"chain": map[string]any{"middlewares": []any{map[string]any{"name": "next"}}}},
	}
	cluster.Put(&snapshot.Resource{
		Kind: snapshot.TraefikMiddleware, Namespace: "shop", Name: "next",
		Spec: map[string]any{"forwardAuth": map[string]any{"address": "http://auth"}},
	})
	_, faults := traefik.Middleware(object, reference.Source{View: view, Namespace: "elsewhere"})
	if len(faults) != 1 || faults[0].Reason != refusal.NotFound {
		t.Fatalf("faults %v", faults)
	}
	want := map[snapshot.Ref]bool{
		{Kind: snapshot.TraefikMiddleware}:                                  true,
		{Kind: snapshot.TraefikMiddleware, Namespace: "shop", Name: "next"}: true,
		{Kind: snapshot.Service, Namespace: "shop", Name: "auth"}:           true,
	}
	for ref := range view.Reads() {
		if !want[ref] {
			t.Errorf("%s was read", ref)
		}
		delete(want, ref)
	}
	for ref := range want {
		t.Errorf("%s was not read", ref)
	}
}

// TestNumbers: JSON decoders differ in the type of a number.
func TestNumbers(t *testing.T) {
	for _, number := range []any{float64(5), int64(5), 5} {
		policies, faults := readMiddleware(snapshot.New(), map[string]any{"inFlightReq": map[string]any{"amount": number}})
		if len(faults) > 0 || policies[0].InFlight.Max != 5 {
			t.Errorf("%T: %v, faults %v", number, policies, faults)
		}
	}
	for _, number := range []any{1e300, 0.5, uint8(5), "5"} {
		if _, faults := readMiddleware(snapshot.New(), map[string]any{"inFlightReq": map[string]any{"amount": number}}); len(faults) == 0 {
			t.Errorf("%T %v was taken", number, number)
		}
	}
}
