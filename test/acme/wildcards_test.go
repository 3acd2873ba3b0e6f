package acme

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/ingress/certrequest"
	"slipway.dev/slipway/internal/must"
)

// testWildcard: a wildcard gets its certificate by a DNS challenge, alone and together
// with its domain; no record is left. A resolver by HTTP refuses it.
func (w *world) testWildcard(t *testing.T) {
	w.serve(t, "shop", "plain", map[string]string{"certresolver": "le"}, "*.plain.example")
	before := w.authority.ordered()
	w.serve(t, "shop", "wild", map[string]string{"certresolver": "dns"}, "*.wild.example")
	w.serve(t, "shop", "both", map[string]string{"certresolver": "dns", "domains.0.main": "both.example", "domains.0.sans": "*.both.example"}, "both.example", "*.both.example")
	for host, want := range map[string][]string{"a.wild.example": {"*.wild.example"}, "both.example": {"*.both.example", "both.example"}, "a.both.example": {"*.both.example", "both.example"}} {
		w.awaitFetched(t, host)
		leaf := must.Get(w.replicas[0].fetched(t.Context(), host))(t)
		slices.Sort(leaf.DNSNames)
		if !slices.Equal(leaf.DNSNames, want) {
			t.Errorf("%s has a certificate for %q", host, leaf.DNSNames)
		}
		if status, body, err := w.replicas[1].get(t.Context(), host); status != 200 || body != "hello" {
			t.Errorf("%s: %d %q %v", host, status, body, err)
		}
	}
	if got := w.authority.ordered() - before; got != 2 {
		t.Errorf("%d orders for two certificates", got)
	}
	if got := w.names.added(); got != 3 {
		t.Errorf("%d records were added for three challenges", got)
	}
	w.awaitNoRecords(t, "_acme-challenge.wild.example.", "_acme-challenge.both.example.")
	w.awaitEvent(t, "shop", "plain", "RefusedUnsupported", "a certificate for *.plain.example needs a challenge by DNS, and the resolver le has one by HTTP")
}

// awaitNoRecords waits until names have no TXT record, and none is noted.
func (w *world) awaitNoRecords(t *testing.T, names ...string) {
	t.Helper()
	eventually(t, func() error {
		for _, name := range names {
			if left := w.names.texts(t, name); len(left) > 0 {
				return fmt.Errorf("%s has %q", name, left)
			}
		}
		noted, err := w.cluster.Client.CoreV1().Secrets(home).Get(t.Context(), certrequest.ChallengesSecret, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for token, value := range noted.Data {
			if entry, err := certrequest.DecodeChallenge(value); err != nil || entry.Record != "" {
				return fmt.Errorf("%s is noted: %s", token, value)
			}
		}
		return nil
	})
}

// testAcmeDNS: a wildcard whose challenges a CNAME record delegates to acme-dns gets
// its certificate, and the zone of the domain is not changed.
func (w *world) testAcmeDNS(t *testing.T) {
	before := w.names.added()
	w.serve(t, "shop", "pay", map[string]string{"certresolver": "auth", "domains.0.main": "*.pay.example", "domains.0.sans": "pay.example"}, "*.pay.example", "pay.example")
	w.awaitFetched(t, "a.pay.example")
	w.awaitFetched(t, "pay.example")
	w.auth.mu.Lock()
	defer w.auth.mu.Unlock()
	if w.auth.updates != 2 || w.names.added() != before {
		t.Errorf("%d updates at acme-dns, %d in the zone", w.auth.updates, w.names.added()-before)
	}
}

// holdRecord begins an order that waits for its record until the end of the test, and
// returns the record.
func (w *world) holdRecord(t *testing.T) string {
	t.Helper()
	w.serve(t, "shop", "held", map[string]string{"certresolver": "slow"}, "*.held.example")
	return w.heldRecord(t, "")
}

// heldRecord waits until the order has one record, another one than before.
func (w *world) heldRecord(t *testing.T, before string) (value string) {
	t.Helper()
	eventually(t, func() error {
		all := w.names.texts(t, "_acme-challenge.held.example.")
		if len(all) != 1 || all[0] == before {
			return fmt.Errorf("the records are %q", all)
		}
		value = all[0]
		return nil
	})
	return value
}
