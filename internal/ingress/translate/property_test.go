package translate_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/edge/program"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/must"
)

// TestOrder holds the whole way from Ingress objects to the choice for a request
// against the oracle, with generated Ingresses that get in each other's way.
func TestOrder(t *testing.T) {
	const worlds, requests = 5_000, 4
	random := rand.New(rand.NewPCG(7, 11))
	answered := 0
	for number := range worlds {
		w, ingresses, options := generate(random)
		w.translate()
		compiled := w.compile(t)
		for range requests {
			host, path := pick(random, caseHosts), pick(random, caseRequests)
			want := oracle(ingresses, options, host, path)
			got := ""
			if rule := compiled.Lookup(&program.Request{EntryPoint: "web", Method: "GET", Host: host, Path: path}).Rule; rule != nil {
				if rule.Response != nil {
					t.Fatalf("world %d: %s%s is answered %+v", number, host, path, rule.Response)
				}
				got = rule.Backends[0].Backend.Name
			}
			if got != want {
				t.Fatalf("world %d: %s%s goes to %q, the oracle says %q\n%s", number, host, path, got, want, show(t, ingresses))
			}
			if want != "" {
				answered++
			}
		}
	}
	// A generator that hits nothing would prove nothing.
	if answered < worlds*requests/2 {
		t.Errorf("only %d of %d requests were answered", answered, worlds*requests)
	}
}

var (
	caseHosts    = []string{"a.example.com", "b.example.com", "x.a.example.com", "y.x.a.example.com", "example.com", "other.test"}
	casePatterns = []string{"", "a.example.com", "A.Example.com", "b.example.com", "x.a.example.com", "*.example.com", "*.a.example.com"}
	caseRequests = []string{"/", "/foo", "/foo/", "/foo/bar", "/foo/bar/", "/foobar", "/foo1", "/foo/x", "/bar", "/bar/x", "/foo/bar/baz"}
	casePaths    = []string{"/", "/foo", "/foo/", "/foo/bar", "/fo", "/%66oo/bar", "/foobar", "/bar"}
)

func pick[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }

// generate makes a cluster of a few Ingresses.
func generate(random *rand.Rand) (*world, []*networkingv1.Ingress, oracleOptions) {
	w := newWorld()
	options := oracleOptions{
		strict: random.IntN(3) > 0,
		ours:   map[string]bool{"ours": true, "ours-too": true},
		others: map[string]bool{"foreign": true},
	}
	if random.IntN(4) == 0 {
		options.class = pick(random, []string{"ours", "foreign", "missing"})
	}
	w.options = resolve.Options{StrictPrefix: options.strict, IngressClass: options.class}
	for name, controller := range map[string]string{"ours": resolve.ControllerName, "ours-too": resolve.ControllerName, "foreign": "example.com/other"} {
		w.snapshot.Put(&networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.IngressClassSpec{Controller: controller}})
	}
	var ingresses []*networkingv1.Ingress
	for i := range 1 + random.IntN(5) {
		ingress := generateIngress(random, w, i, options.class)
		ingresses = append(ingresses, ingress)
		w.snapshot.Put(ingress)
	}
	return w, ingresses, options
}

func generateIngress(random *rand.Rand, w *world, number int, class string) *networkingv1.Ingress {
	ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{
		Namespace:         pick(random, []string{"east", "west"}),
		Name:              fmt.Sprintf("%c%d", 'a'+random.IntN(3), number),
		CreationTimestamp: metav1.NewTime(time.Unix(int64(1_700_000_000+random.IntN(3)), 0)),
		Annotations:       map[string]string{},
	}}
	generateClass(random, ingress, class)
	if random.IntN(4) == 0 {
		ingress.Annotations["slipway.dev/priority"] = pick(random, []string{"10", "-3", "0"})
	}
	expressions := random.IntN(6) == 0
	if expressions {
		ingress.Annotations["slipway.dev/path-matcher"] = "PathRegexp"
	} else if random.IntN(6) == 0 {
		ingress.Annotations["slipway.dev/path-matcher"] = pick(random, []string{"Path", "PathPrefix"})
	}
	for i := range random.IntN(4) {
		rule := networkingv1.IngressRule{Host: pick(random, casePatterns)}
		if random.IntN(8) > 0 {
			rule.HTTP = &networkingv1.HTTPIngressRuleValue{}
			for j := range 1 + random.IntN(3) {
				path := generatePath(random, expressions)
				path.Backend = generateBackend(w, ingress.Namespace, fmt.Sprintf("s%d-%d-%d", number, i, j))
				rule.HTTP.Paths = append(rule.HTTP.Paths, path)
			}
		}
		ingress.Spec.Rules = append(ingress.Spec.Rules, rule)
	}
	if random.IntN(3) == 0 {
		backend := generateBackend(w, ingress.Namespace, fmt.Sprintf("s%d-default", number))
		ingress.Spec.DefaultBackend = &backend
	}
	return ingress
}

func generateClass(random *rand.Rand, ingress *networkingv1.Ingress, class string) {
	switch random.IntN(6) {
	case 0:
		name := pick(random, []string{"ours", "ours-too", "foreign", "missing", ""})
		ingress.Spec.IngressClassName = &name
	case 1:
		ingress.Annotations["kubernetes.io/ingress.class"] = pick(random, []string{"", "slipway", "traefik", "nginx"})
	case 2:
		ingress.Spec.IngressClassName = &class
		if class == "" {
			ingress.Spec.IngressClassName = nil
		}
	default:
		if class != "" {
			ingress.Annotations["kubernetes.io/ingress.class"] = class
		}
	}
}

func generatePath(random *rand.Rand, expressions bool) networkingv1.HTTPIngressPath {
	kinds := []networkingv1.PathType{networkingv1.PathTypeExact, networkingv1.PathTypePrefix, networkingv1.PathTypePrefix, networkingv1.PathTypeImplementationSpecific}
	kind := pick(random, kinds)
	path := networkingv1.HTTPIngressPath{Path: pick(random, casePaths), PathType: &kind}
	if kind == networkingv1.PathTypeImplementationSpecific {
		if random.IntN(3) == 0 {
			path.PathType = nil
		}
		switch {
		case random.IntN(6) == 0:
			path.Path = ""
		case expressions:
			path.Path = pick(random, []string{"/foo[0-9]+", "/(foo|bar)/x", "/foo/.*r$"})
		}
	}
	return path
}

func generateBackend(w *world, namespace, name string) networkingv1.IngressBackend {
	w.addService(namespace, name, 80, "", true)
	return networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
		Name: name, Port: networkingv1.ServiceBackendPort{Number: 80},
	}}
}

func show(t *testing.T, ingresses []*networkingv1.Ingress) string {
	t.Helper()
	var text strings.Builder
	for _, ingress := range ingresses {
		out := must.Get(yaml.Marshal(ingress))(t)
		text.WriteString("---\n" + string(out))
	}
	return text.String()
}
