package status

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// The API server takes what each kind of address becomes.
func TestPublish(t *testing.T) {
	cluster := kubetest.Shared(t)
	port := corev1.ServicePort{Name: "web", Port: 80, NodePort: 0, Protocol: corev1.ProtocolTCP}
	for _, test := range []struct {
		name    string
		options Options
		spec    corev1.ServiceSpec
		status  []corev1.LoadBalancerIngress
		want    string
	}{
		{name: "ip", options: Options{IP: "192.0.2.1"}, want: "192.0.2.1"},
		{name: "hostname", options: Options{Hostname: "edge.example.com"}, want: "edge.example.com"},
		{name: "both", options: Options{IP: "2001:db8::1", Hostname: "edge.example.com"}, want: "2001:db8::1/edge.example.com"},
		{name: "load-balancer", spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
			status: []corev1.LoadBalancerIngress{{IP: "192.0.2.8", Ports: []corev1.PortStatus{{Port: 80, Protocol: corev1.ProtocolTCP}}}, {Hostname: "lb.example.com"}},
			want:   "lb.example.com, 192.0.2.8 80/TCP"},
		{name: "cluster-ip", spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ExternalIPs: []string{"192.0.2.6", "192.0.2.5"}},
			want: "192.0.2.5 80/TCP, 192.0.2.6 80/TCP"},
		{name: "node-port", spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort},
			want: "192.0.2.2 NODE/TCP, 192.0.2.3 NODE/TCP, 192.0.2.9 NODE/TCP, 2001:db8::2 NODE/TCP"},
		{name: "external-name", spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "edge.example.com"},
			want: "edge.example.com"},
	} {
		t.Run(test.name, func(t *testing.T) {
			namespace := cluster.Namespace(t)
			want := test.want
			tell := func(*Writer) {}
			if test.spec.Type != "" {
				test.spec.Ports = []corev1.ServicePort{port}
				service := makeService(t, cluster, namespace, test.spec, test.status)
				want = strings.ReplaceAll(want, "NODE", fmt.Sprint(service.Spec.Ports[0].NodePort))
				test.options.PublishedService = namespace + "/edge"
				tell = func(w *Writer) {
					w.Nodes(testNodes)
					w.Published(service)
				}
			}
			makeIngress(t, cluster, namespace, "shop", "ours")
			r := start(t, cluster, namespace, test.options, tell)
			waitStatus(t, cluster, namespace, 1, want)
			if got := r.count("status_addresses", ""); got != strings.Count(want, ",")+1 {
				t.Errorf("the metric says %d addresses", got)
			}
		})
	}
}

func makeService(
	t *testing.T, cluster *kubetest.Cluster, namespace string, spec corev1.ServiceSpec, balanced []corev1.LoadBalancerIngress,
) *corev1.Service {
	t.Helper()
	services := cluster.Client.CoreV1().Services(namespace)
	service, err := services.Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Spec: spec}, metav1.CreateOptions{})
	if err == nil && balanced != nil {
		service.Status.LoadBalancer.Ingress = balanced
		service, err = services.UpdateStatus(t.Context(), service, metav1.UpdateOptions{})
	}
	must.Do(t, err)
	return service
}

// A new address reaches every Ingress with one write each. Writes of our own are
// seen by our watch and cause no more of them.
func TestReaddressMany(t *testing.T) {
	const number = 200
	cluster, namespace := kubetest.SharedNamespace(t)
	for i := range number {
		makeIngress(t, cluster, namespace, fmt.Sprintf("shop-%d", i), "ours")
	}
	makeIngress(t, cluster, namespace, "foreign", "theirs")
	balanced := func(ips ...string) *corev1.Service {
		var entries []corev1.LoadBalancerIngress
		for _, ip := range ips {
			entries = append(entries, corev1.LoadBalancerIngress{IP: ip})
		}
		return testService(corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}, entries...)
	}
	r := start(t, cluster, namespace, Options{PublishedService: "infra/edge"}, func(w *Writer) { w.Published(balanced("192.0.2.1")) })
	waitStatus(t, cluster, namespace, number, "192.0.2.1")
	programs.Until(t, "one write for each Ingress", func() bool { return r.writes(resultWritten) == number })
	// No address, or no Service, keeps what is there.
	r.Published(balanced())
	r.Published(nil)
	r.Published(balanced("192.0.2.3", "192.0.2.2"))
	waitStatus(t, cluster, namespace, number, "192.0.2.2, 192.0.2.3")
	r.Published(balanced("192.0.2.2", "192.0.2.3"))
	// Whatever was queued by then is done before the one that is queued last.
	makeIngress(t, cluster, namespace, "last", "ours")
	waitStatus(t, cluster, namespace, number+1, "192.0.2.2, 192.0.2.3")
	// The response to a write may come after the watch has shown it.
	programs.Until(t, "one write for each Ingress and address", func() bool { return r.writes(resultWritten) == 2*number+1 })
	if failed := r.writes(resultFailed); failed != 0 {
		t.Errorf("%d writes failed", failed)
	}
	waitStatus(t, cluster, namespace, 1, "")
}

// The status goes with the Ingress when that becomes another controller's, and
// so does every trace of our field manager.
func TestWithdraw(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	makeIngress(t, cluster, namespace, "shop", "ours")
	makeIngress(t, cluster, namespace, "stays", "ours")
	r := start(t, cluster, namespace, Options{IP: "192.0.2.1"})
	waitStatus(t, cluster, namespace, 2, "192.0.2.1")
	setClass(t, cluster, namespace, "shop", "theirs")
	withdrawn := waitStatus(t, cluster, namespace, 1, "")
	for _, ingress := range withdrawn {
		if ingress.Name == "shop" && isManaged(ingress) {
			t.Errorf("our field manager still has a part of it: %+v", ingress.ManagedFields)
		}
	}
	programs.Until(t, "the Ingress is forgotten", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.records) == 1
	})
	// And it comes back.
	setClass(t, cluster, namespace, "shop", "ours")
	waitStatus(t, cluster, namespace, 2, "192.0.2.1")
}

// TestDeletedOrLeft: with a selector an Ingress that disappears may only have lost
// its label, so its status is withdrawn. One that was deleted leaves no record
// behind.
func TestDeletedOrLeft(t *testing.T) {
	cluster := kubetest.Shared(t)
	namespace := cluster.Namespace(t)
	r := start(t, cluster, namespace, Options{IP: "192.0.2.1", Selective: true})
	ingresses := cluster.Client.NetworkingV1().Ingresses(namespace)
	for range 2 {
		makeIngress(t, cluster, namespace, "shop", "ours")
		waitStatus(t, cluster, namespace, 1, "192.0.2.1")
		must.Do(t, ingresses.Delete(t.Context(), "shop", metav1.DeleteOptions{}))
		programs.Until(t, "the record is dropped", func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return len(r.records) == 0
		})
	}
	if failed := r.writes(resultFailed); failed != 0 {
		t.Errorf("%d writes failed", failed)
	}
}

// What was ours before a restart, and changed hands meanwhile, is withdrawn.
// What looks like ours and is not stays: the status of another controller, even
// with our address, and that of another Slipway with another address.
func TestWithdrawAfterRestart(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	makeIngress(t, cluster, namespace, "shop", "ours")
	first := start(t, cluster, namespace, Options{IP: "192.0.2.1"})
	waitStatus(t, cluster, namespace, 1, "192.0.2.1")
	first.stop()
	setClass(t, cluster, namespace, "shop", "theirs")

	makeIngress(t, cluster, namespace, "foreign", "theirs")
	overwrite(t, cluster, namespace, "foreign", "192.0.2.1")
	made := makeIngress(t, cluster, namespace, "second", "theirs")
	other := New(cluster.Cluster, Options{IP: "192.0.2.2"})
	if _, err := other.applyStatus(t.Context(), statusWrite{
		at: ingressKey{namespace, "second"}, uid: made.UID, version: made.ResourceVersion,
		step: stepWrite, addresses: other.published.addresses,
	}); err != nil {
		t.Fatal(err)
	}

	again := start(t, cluster, namespace, Options{IP: "192.0.2.1"})
	kubetest.WaitFor(t, cluster.Client.NetworkingV1().Ingresses(namespace), metav1.ListOptions{}, patience, func(ingresses []*networkingv1.Ingress) error {
		for _, ingress := range ingresses {
			if ingress.Name == "shop" && len(ingress.Status.LoadBalancer.Ingress) > 0 {
				return fmt.Errorf("shop still has %s", show(ingress.Status.LoadBalancer.Ingress))
			}
		}
		return nil
	})
	makeIngress(t, cluster, namespace, "last", "ours")
	waitStatus(t, cluster, namespace, 2, "192.0.2.1") // foreign and last
	waitStatus(t, cluster, namespace, 1, "192.0.2.2") // second
	programs.Until(t, "one was written and one withdrawn", func() bool {
		return again.writes(resultWritten) == 1 && again.writes(resultWithdrawn) == 1
	})
}

// An Ingress that has changed since it was seen is not written before its new
// state was seen: it may belong to another controller.
func TestStaleIngressIsNotWritten(t *testing.T) {
	cluster := kubetest.Shared(t)
	namespace, elsewhere := cluster.Namespace(t), cluster.Namespace(t)
	old := makeIngress(t, cluster, namespace, "shop", "ours")
	setClass(t, cluster, namespace, "shop", "theirs")
	overwrite(t, cluster, namespace, "shop", "192.0.2.77")

	r := start(t, cluster, elsewhere, Options{IP: "192.0.2.1"}, func(w *Writer) { w.Ingress(old, true, engine.Condition{}) })
	programs.Until(t, "the write is refused, and tried again", func() bool { return r.writes(resultConflict) >= 2 })
	waitStatus(t, cluster, namespace, 1, "192.0.2.77")

	setClass(t, cluster, namespace, "shop", "ours")
	fresh := must.Get(cluster.Client.NetworkingV1().Ingresses(namespace).Get(t.Context(), "shop", metav1.GetOptions{}))(t)
	r.Ingress(fresh, true, engine.Condition{})
	waitStatus(t, cluster, namespace, 1, "192.0.2.1")

	// One of the same name is another one.
	r.Ingress(&networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "shop", UID: "another", ResourceVersion: fresh.ResourceVersion}}, true, engine.Condition{})
	before := r.writes(resultConflict)
	programs.Until(t, "the write is refused", func() bool { return r.writes(resultConflict) > before })
	// One that is gone is left alone.
	must.Do(t, cluster.Client.NetworkingV1().Ingresses(namespace).Delete(t.Context(), "shop", metav1.DeleteOptions{}))
	waitStatus(t, cluster, namespace, 0, "192.0.2.1")
}

// A status that another controller keeps overwriting is written again three times. Then
// there is a pause, and an Event.
func TestContestedStatus(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	makeIngress(t, cluster, namespace, "shop", "ours")
	r := start(t, cluster, namespace, Options{IP: "192.0.2.1"})
	waitStatus(t, cluster, namespace, 1, "192.0.2.1")
	for i := range contestTries {
		overwrite(t, cluster, namespace, "shop", "192.0.2.77")
		programs.Until(t, "it is written again", func() bool { return r.writes(resultWritten) == 2+i })
	}
	overwrite(t, cluster, namespace, "shop", "192.0.2.77")
	waitEvents(t, cluster, namespace, "shop", "Warning RefusedConflict status.loadBalancer: "+
		"another controller keeps overwriting the addresses: let only one controller serve this Ingress")
	waitStatus(t, cluster, namespace, 1, "192.0.2.77")
	if got := r.writes(resultWritten); got != 1+contestTries {
		t.Errorf("%d writes, want %d", got, 1+contestTries)
	}
	if got := strings.Count(r.lines.String(), "status contested by another controller"); got != 1 {
		t.Errorf("%d lines in the log", got)
	}
}
