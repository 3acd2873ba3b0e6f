package resolve_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// secretOf makes a Secret with a certificate that is valid in a time.
func secretOf(t testing.TB, name string, from, to time.Time) *snapshot.SecretBody {
	t.Helper()
	pair := pkitest.SelfSigned(t, pkitest.Certificate{Names: []string{"a.example.com"}, Subject: name, From: from, Until: to})
	return &snapshot.SecretBody{Namespace: "shop", Name: name, Data: pair.Data()}
}

// TestCertificateStates: a certificate that is out of date is refused and
// claimed still; one that does not fit its key is not.
func TestCertificateStates(t *testing.T) {
	now := time.Now()
	good := secretOf(t, "good", now.Add(-time.Hour), now.Add(time.Hour))
	mixed := secretOf(t, "mixed", now.Add(-time.Hour), now.Add(time.Hour))
	mixed.Data["tls.key"] = good.Data["tls.key"]
	unread := &snapshot.SecretBody{Namespace: "shop", Name: "unread", Failure: refusal.New("", refusal.Unreadable, "forbidden")}
	ingress := ingressOf("a.example.com")
	for _, name := range []string{"expired", "early", "mixed", "unread", "missing", "good", "good"} {
		ingress.Spec.TLS = append(ingress.Spec.TLS, networkingv1.IngressTLS{SecretName: name})
	}
	site := resolved(snapshotOf(ingress, serviceOf("app"), good, mixed, unread,
		secretOf(t, "expired", now.Add(-2*time.Hour), now.Add(-time.Hour)), secretOf(t, "early", now.Add(time.Hour), now.Add(2*time.Hour))), resolve.Options{})
	var claimed []string
	for _, use := range site.Certificates {
		claimed = append(claimed, use.Certificate.ID.Name+" "+strings.Join(use.Hosts, ",")+" "+use.Field)
	}
	want := []string{
		"expired a.example.com spec.tls[0].secretName", "early a.example.com spec.tls[1].secretName",
		"good a.example.com spec.tls[5].secretName", "good a.example.com spec.tls[6].secretName",
	}
	if !slices.Equal(claimed, want) {
		t.Errorf("claimed: %q", claimed)
	}
	wantTold(t, site, "spec.tls[0].secretName Invalid", "spec.tls[1].secretName Invalid", "spec.tls[2].secretName Invalid",
		"spec.tls[3].secretName Unreadable", "spec.tls[4].secretName NotFound")
	for _, refusal := range site.Refusals {
		if strings.Contains(refusal.Message, "PRIVATE") {
			t.Errorf("it shows a key: %s", refusal.Message)
		}
	}
	if site.Closed != nil || site.Paths[0].Target.Closed != nil {
		t.Error("a bad certificate closed the path")
	}
}

// TestCertificateCrowd: certificates for many hosts are bounded.
func TestCertificateCrowd(t *testing.T) {
	now := time.Now()
	var hosts []string
	for i := range 1500 {
		hosts = append(hosts, fmt.Sprintf("h%d.example.com", i))
	}
	ingress := ingressOf(hosts...)
	for range resolve.MaxHosts + 5 {
		ingress.Spec.TLS = append(ingress.Spec.TLS, networkingv1.IngressTLS{SecretName: "good"})
	}
	site := resolved(snapshotOf(ingress, serviceOf("app"), secretOf(t, "good", now.Add(-time.Hour), now.Add(time.Hour))), resolve.Options{})
	if len(site.Certificates) != 2 {
		t.Errorf("%d claims", len(site.Certificates))
	}
	if len(site.Refusals) != resolve.MaxRefusals+1 {
		t.Errorf("%d refusals", len(site.Refusals))
	}
}

func BenchmarkIngress(b *testing.B) {
	now := time.Now()
	ingress := ingressOf("a.example.com")
	ingress.Spec.TLS = []networkingv1.IngressTLS{{SecretName: "good"}}
	s := snapshotOf(ingress, serviceOf("app"), secretOf(b, "good", now.Add(-time.Hour), now.Add(time.Hour)))
	b.ReportAllocs()
	for b.Loop() {
		resolved(s, resolve.Options{StrictPrefix: true})
	}
}
