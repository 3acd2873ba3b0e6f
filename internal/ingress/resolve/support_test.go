package resolve_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// looks resolves backends, and counts how often each is looked up.
type looks struct {
	of    map[string]resolve.BackendSummary // by the name of the Service
	asked map[route.BackendID]int
}

func (l *looks) Summary(id route.BackendID) resolve.BackendSummary {
	if l.asked == nil {
		l.asked = map[route.BackendID]int{}
	}
	l.asked[id]++
	return l.of[id.Name]
}

// ingressOf makes an Ingress shop/cart with a path to the Service app for each
// host.
func ingressOf(hosts ...string) *networkingv1.Ingress {
	ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart", Annotations: map[string]string{}}}
	for _, host := range hosts {
		ingress.Spec.Rules = append(ingress.Spec.Rules, networkingv1.IngressRule{
			Host: host, IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
				Paths: []networkingv1.HTTPIngressPath{pathTo("/", "app")},
			}},
		})
	}
	return ingress
}

func pathTo(path, service string) networkingv1.HTTPIngressPath {
	kind := networkingv1.PathTypePrefix
	return networkingv1.HTTPIngressPath{Path: path, PathType: &kind, Backend: backendTo(service)}
}

func backendTo(service string) networkingv1.IngressBackend {
	return networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
		Name: service, Port: networkingv1.ServiceBackendPort{Number: 80},
	}}
}

func serviceOf(name string) *corev1.Service {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	service.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	return service
}

func snapshotOf(objects ...any) *snapshot.Snapshot {
	s := snapshot.New()
	for _, object := range objects {
		s.Put(object)
	}
	return s
}

// resolved resolves the Ingress shop/cart.
func resolved(s *snapshot.Snapshot, options resolve.Options) *resolve.ResolvedIngress {
	return resolve.Ingress(s.View(), "shop", "cart", options, &looks{})
}

// told lists refusals as field and reason.
func told(site *resolve.ResolvedIngress) []string {
	var all []string
	for _, refusal := range site.Refusals {
		all = append(all, refusal.Field+" "+string(refusal.Reason))
	}
	return all
}

func wantTold(t *testing.T, site *resolve.ResolvedIngress, want ...string) {
	t.Helper()
	if got := told(site); !slices.Equal(got, want) {
		t.Errorf("refusals:\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}
