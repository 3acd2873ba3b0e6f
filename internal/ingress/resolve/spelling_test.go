package resolve_test

import (
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/ingress/resolve"
)

// FuzzSpelling holds the spelling of paths and hosts of an Ingress to that of
// requests: what is accepted is what the edge makes of the same text, and what
// the edge would have to clean is refused.
func FuzzSpelling(f *testing.F) {
	for _, path := range []string{
		"/", "/foo", "/%61", "/%7e/x", "/é", "/a b", "/%C3%a9", "/%zz", "/%", "/%4", "/a;b", "/a%3bb", "/\\", "/%5c", "/[x]", "/{x}|",
		"/a//b", "/./a", "/%2e%2E/a", "/a/..", "/%2f", "/a%2Fb", "/%00", "/\x7f", "/a\nb", "/a?b", "/a#b", "/%23", "a", "", "/%25", "/..%3b/x",
	} {
		f.Add(path, "A.example.com")
	}
	f.Add("/", "*.example.com")
	f.Add("/", "a_b.example.com.")
	f.Add("/", "\u212Aelvin")
	f.Fuzz(func(t *testing.T, path, host string) {
		exact := networkingv1.PathTypeExact
		ingress := ingressOf(host)
		ingress.Spec.Rules[0].HTTP.Paths[0].Path = path
		ingress.Spec.Rules[0].HTTP.Paths[0].PathType = &exact
		site := resolved(snapshotOf(ingress, serviceOf("app")), resolve.Options{StrictPrefix: true})
		if len(site.Paths) == 0 {
			return
		}
		got := site.Paths[0].Match.Value
		want, hazards, err := normalize.RulePath(path)
		if err == nil && got != want {
			t.Fatalf("%q becomes %q, and %q in requests", path, got, want)
		}
		// A path that hides dots is one that no request can have. So a rule with
		// it does no harm, and no good.
		if err != nil && err != normalize.ErrHiddenDots {
			t.Fatalf("%q is accepted, and requests with it are not: %v", path, err)
		}
		if hazards == 0 && err == nil && strings.Contains(got, "//") {
			t.Fatalf("%q is accepted", path)
		}
		if host == "" {
			return
		}
		// Requests have no wildcard: what stands for it is left out of the comparison.
		name, wildcard := strings.CutPrefix(host, "*.")
		got, cut := strings.CutPrefix(site.Paths[0].Host, "*.")
		if want, port, err := normalize.Host(nil, []byte(name)); err != nil || port != 0 || wildcard != cut || got != string(want) {
			t.Fatalf("the host %q becomes %q, and %q in requests: %v", host, site.Paths[0].Host, want, err)
		}
	})
}
