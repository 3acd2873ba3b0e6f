package snapshot_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/ingress/snapshot"
)

func serviceWith(name string, port int32) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "u"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: port}}},
	}
}

// TestServiceFacts: readers learn of a change of what routes depend on, and of no other.
func TestServiceFacts(t *testing.T) {
	facts := snapshot.New()
	service := snapshot.Ref{Kind: snapshot.Service, Namespace: "shop", Name: "cart"}
	tests := []struct {
		name    string
		change  func(*corev1.Service)
		changed bool
	}{
		{"new", func(*corev1.Service) {}, true},
		{"same", func(*corev1.Service) {}, false},
		{"labels, affinity and conditions", func(s *corev1.Service) {
			s.Labels, s.Spec.SessionAffinity = map[string]string{"a": "b"}, corev1.ServiceAffinityClientIP
			s.Status.Conditions = []metav1.Condition{{Type: "x"}}
		}, false},
		{"selector", func(s *corev1.Service) { s.Spec.Selector = map[string]string{"a": "b"} }, true},
		{"another selector", func(s *corev1.Service) { s.Spec.Selector = map[string]string{"a": "c"} }, false},
		{"annotation", func(s *corev1.Service) { s.Annotations = map[string]string{"slipway.dev/a": "b"} }, true},
		{"load balancer", func(s *corev1.Service) {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
		}, true},
		{"port", func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }, true},
		{"another object", func(s *corev1.Service) { s.UID = "v"; s.Spec.Ports[0].Port = 81 }, true},
	}
	for _, test := range tests {
		object := serviceWith("cart", 80)
		test.change(object)
		if got := slices.Contains(facts.Put(object), service); got != test.changed {
			t.Errorf("%s: changed is %t", test.name, got)
		}
	}
}

// TestSharedPorts: Services and slices with the same port share its memory.
func TestSharedPorts(t *testing.T) {
	facts := snapshot.New()
	for name, port := range map[string]int32{"a": 80, "b": 80, "c": 81} {
		facts.Put(serviceWith(name, port))
		number, text, protocol := port, "http", corev1.ProtocolTCP
		facts.Put(&discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: name}},
			Ports:      []discoveryv1.EndpointPort{{Name: &text, Port: &number, Protocol: &protocol}},
		})
	}
	view := facts.View()
	service := func(name string) *corev1.ServicePort { return &view.Service("shop", name).Spec.Ports[0] }
	slice := func(name string) *discoveryv1.EndpointPort { return &view.Slices("shop", name)[0].Ports[0] }
	if service("a") != service("b") || slice("a") != slice("b") {
		t.Error("equal ports do not share their memory")
	}
	if service("a") == service("c") || service("c").Port != 81 || *slice("a").Port != 80 || *slice("c").Port != 81 {
		t.Error("different ports share their memory")
	}
}

// TestSliceOfAnotherService: both Services change when a slice moves between them.
func TestSliceOfAnotherService(t *testing.T) {
	facts := snapshot.New()
	of := func(service string) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "slice", Labels: map[string]string{discoveryv1.LabelServiceName: service},
		}}
	}
	facts.Put(of("a"))
	refs := facts.Put(of("b"))
	for _, name := range []string{"a", "b"} {
		if !slices.Contains(refs, snapshot.Ref{Kind: snapshot.EndpointSlice, Namespace: "shop", Name: name}) {
			t.Errorf("the slices of %s changed, and got %v", name, refs)
		}
	}
	if view := facts.View(); len(view.Slices("shop", "a")) != 0 || len(view.Slices("shop", "b")) != 1 {
		t.Error("the slice did not move")
	}
}
