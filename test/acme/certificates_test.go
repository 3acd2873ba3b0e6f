package acme

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/ingress/certrequest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/test/conformance/edgeprocess"
)

func listen(address netip.Addr) (net.Listener, error) {
	return net.Listen("tcp", netip.AddrPortFrom(address, 0).String())
}

// testOrder: an Ingress that names a resolver gets its certificate, once, on all
// replicas, although the authority asks now one of them and now the other, and
// all plain requests are redirected.
func (w *world) testOrder(t *testing.T) {
	w.serve(t, "shop", "cart", map[string]string{"certresolver": "le"}, "cart.example")
	w.awaitFetched(t, "cart.example")
	if got := w.authority.ordered(); got != 1 {
		t.Errorf("%d orders for one certificate", got)
	}
	if missing, all := w.balancer.spread(); !all {
		t.Errorf("the authority asked only one replica, not %s", missing)
	}
	found, err := w.secretOf(t.Context(), "shop", "le", "cart.example")
	if err != nil || found == nil {
		t.Fatalf("the Secret: %v, %v", found, err)
	}
	if found.Type != corev1.SecretTypeTLS || found.Labels[certrequest.ManagedLabel] != certrequest.ManagedValue ||
		found.Annotations[certrequest.ResolverAnnotation] != "le" || found.Annotations[certrequest.HostsAnnotation] != "cart.example" {
		t.Errorf("the Secret is %s with %v and %v", found.Type, found.Labels, found.Annotations)
	}
	for _, r := range w.replicas {
		if status, body, err := r.get(t.Context(), "cart.example"); status != 200 || body != "hello" {
			t.Errorf("%s: %d %q %v", r.At, status, body, err)
		}
	}
	own := w.cluster.Client.CoreV1().Secrets(home)
	if _, err := own.Get(t.Context(), "slipway-acme-account-le", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	eventually(t, func() error {
		challenges, err := own.Get(t.Context(), certrequest.ChallengesSecret, metav1.GetOptions{})
		if err == nil && len(challenges.Data) > 0 {
			err = fmt.Errorf("%d challenges are left", len(challenges.Data))
		}
		return err
	})
	// An Event about what is not ready comes after ten seconds: the tests in
	// between need not wait for it.
	defer w.serve(t, "shop", "broken", map[string]string{"certresolver": "broken"}, "broken.example")
	_, metrics, err := w.leader(t).Page(t.Context(), "/metrics")
	for _, want := range []string{`slipway_acme_orders_total{resolver="le",result="issued"} 1`, `slipway_acme_certificates{state="valid"} 1`, "slipway_acme_next_expiry_seconds "} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s among the metrics: %v", want, err)
		}
	}
}

// testDomains: the domains of the annotations become one certificate with all of
// the names.
func (w *world) testDomains(t *testing.T) {
	before := w.authority.ordered()
	w.serve(t, "shop", "many", map[string]string{"certresolver": "le", "domains.0.main": "a.example", "domains.0.sans": "b.example,c.example"}, "a.example", "b.example")
	for _, host := range []string{"a.example", "b.example"} {
		w.awaitFetched(t, host)
	}
	leaf := must.Get(w.replicas[0].fetched(t.Context(), "a.example"))(t)
	slices.Sort(leaf.DNSNames)
	if !slices.Equal(leaf.DNSNames, []string{"a.example", "b.example", "c.example"}) {
		t.Errorf("it has the names %q", leaf.DNSNames)
	}
	if got := w.authority.ordered() - before; got != 1 {
		t.Errorf("%d orders for one certificate", got)
	}
}

// testRenewal: a certificate is replaced before its time is over, and at no
// moment is another one shown.
func (w *world) testRenewal(t *testing.T) {
	w.serve(t, "shop", "brief", map[string]string{"certresolver": "brief"}, "brief.example")
	w.awaitFetched(t, "brief.example")
	first := must.Get(w.replicas[0].fetched(t.Context(), "brief.example"))(t)
	renewed := map[*replica]bool{}
	eventually(t, func() error {
		for _, r := range w.replicas {
			leaf, err := r.fetched(t.Context(), "brief.example")
			if err != nil {
				t.Fatalf("while it is renewed: %v", err)
			}
			if leaf.SerialNumber.Cmp(first.SerialNumber) != 0 {
				if !renewed[r] && leaf.NotBefore.After(first.NotAfter) {
					t.Errorf("the certificate was renewed at %v, after its end at %v", leaf.NotBefore, first.NotAfter)
				}
				renewed[r] = true
			}
		}
		if len(renewed) < len(w.replicas) {
			return fmt.Errorf("%d replicas show a new certificate", len(renewed))
		}
		return nil
	})
	must.Do(t, w.cluster.Client.NetworkingV1().Ingresses("shop").Delete(t.Context(), "brief", metav1.DeleteOptions{}))
}

// testForeignHost: no Ingress gets a certificate for a host of another namespace.
func (w *world) testForeignHost(t *testing.T) {
	before := w.authority.ordered()
	w.serve(t, "thief", "cart", map[string]string{"certresolver": "le"}, "cart.example")
	w.awaitEvent(t, "thief", "cart", "RefusedConflict", "no certificate is fetched for cart.example: an older Ingress of namespace shop has the host")
	if found, err := w.secretOf(t.Context(), "thief", "le", "cart.example"); found != nil || err != nil {
		t.Errorf("there is a Secret: %v, %v", found, err)
	}
	if got := w.authority.ordered() - before; got != 0 {
		t.Errorf("%d orders", got)
	}
}

// testBrokenAuthority: an authority that is away is reported on the Ingress, which
// is served meanwhile, and others are not held up.
func (w *world) testBrokenAuthority(t *testing.T) {
	w.serve(t, "shop", "other", map[string]string{"certresolver": "le"}, "other.example")
	w.serve(t, "shop", "unknown", map[string]string{"certresolver": "nobody"}, "unknown.example")
	w.awaitEvent(t, "shop", "broken", "RefusedNotReady", "the certificate for broken.example could not be issued by the resolver broken")
	w.awaitEvent(t, "shop", "unknown", "RefusedNotFound", `there is no resolver "nobody": the options of the edge have auth, brief, broken, dns, le, slow`)
	for _, r := range w.replicas {
		if status, body, err := r.get(t.Context(), "broken.example"); status != 200 || body != "hello" {
			t.Errorf("%s: %d %q %v", r.At, status, body, err)
		}
		if status, _, err := r.get(t.Context(), "unknown.example"); status != 503 {
			t.Errorf("%s: %d %v for a host that can never get its certificate", r.At, status, err)
		}
	}
	w.awaitFetched(t, "other.example")
}

// testRestart: edges that restart use what is there and order nothing.
func (w *world) testRestart(t *testing.T) {
	before := w.authority.ordered()
	for i, old := range w.replicas {
		old.Stop(t)
		w.replicas[i] = w.startReplica(t, old.At)
	}
	for _, r := range w.replicas {
		if _, err := r.fetched(t.Context(), "cart.example"); err != nil {
			t.Errorf("an edge that is ready: %v", err)
		}
	}
	// The new leader has looked after everything once it has fetched what is new.
	w.serve(t, "shop", "late", map[string]string{"certresolver": "le"}, "late.example")
	w.awaitFetched(t, "late.example")
	if got := w.authority.ordered() - before; got != 1 {
		t.Errorf("%d orders, want one for what is new", got)
	}
}

// testLeaderKilled: when the leader is killed in the middle of an order, the
// other replica fetches the certificate, and removes the record that was left. One
// that stops in the middle of an order leaves none.
func (w *world) testLeaderKilled(t *testing.T) {
	leader := w.leader(t)
	record := w.holdRecord(t)
	asked := w.balancer.holdAll()
	w.serve(t, "shop", "orphan", map[string]string{"certresolver": "le"}, "orphan.example")
	select {
	case <-asked:
	case <-t.Context().Done():
		t.Fatal("the authority does not ask")
	}
	leader.Kill()
	w.replicas = slices.DeleteFunc(w.replicas, func(r *replica) bool { return r == leader })
	w.balancer.lead(w.replicas[0].On(edgeprocess.PlainPort))
	w.balancer.release()
	w.awaitFetched(t, "orphan.example")
	if got, err := w.replicas[0].fetched(t.Context(), "cart.example"); err != nil {
		t.Errorf("%v, %v", got, err)
	}
	w.heldRecord(t, record)
	w.replicas[0].Stop(t)
	w.awaitNoRecords(t, "_acme-challenge.held.example.")
}
