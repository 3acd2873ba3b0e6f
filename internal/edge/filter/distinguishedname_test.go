package filter_test

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

// TestCertificateResult: the headers of nginx about the verification and the names, which
// test/conformance/nginx compares with those of nginx. Headers of the client are removed.
func TestCertificateResult(t *testing.T) {
	policy := route.ForwardCertificate{VerifyHeader: "ssl-client-verify", SubjectHeader: "ssl-client-subject-dn", IssuerHeader: "ssl-client-issuer-dn"}
	forged := get("/", "ssl-client-verify: SUCCESS", "Ssl-Client-Subject-Dn: CN=root", "ssl-client-issuer-dn: CN=root")
	chain := compile(t, filter.NewCounters(start), route.Policy{ForwardCertificate: &policy})
	head := begin(t, chain, forged).forwarded(t, false)
	if header(t, head, "ssl-client-verify") != "NONE" || strings.Contains(head, "root") {
		t.Errorf("without a certificate:\n%s", head)
	}
	certificate := makeCertificate(t, 1, pkix.Name{CommonName: "alice, b", Organization: []string{"Acme"}})
	head = begin(t, chain, forged, func(x *filter.Exchange) { x.Certificate.Verified = certificate }).forwarded(t, false)
	for name, want := range map[string]string{"ssl-client-verify": "SUCCESS", "ssl-client-subject-dn": `CN=alice\, b,O=Acme`, "ssl-client-issuer-dn": `CN=alice\, b,O=Acme`} {
		if got := header(t, head, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	policy.Unverified = true
	chain = compile(t, filter.NewCounters(start), route.Policy{ForwardCertificate: &policy})
	head = begin(t, chain, forged, func(x *filter.Exchange) { x.Certificate.Presented = certificate }).forwarded(t, false)
	if got := header(t, head, "ssl-client-verify"); !strings.HasPrefix(got, "FAILED:") || header(t, head, "ssl-client-subject-dn") != `CN=alice\, b,O=Acme` {
		t.Errorf("without a verification:\n%s", head)
	}
}

// FuzzDistinguishedName: no name makes the parser fail otherwise than with an error, and
// its text has printable characters only.
func FuzzDistinguishedName(f *testing.F) {
	for _, name := range []pkix.Name{{}, {CommonName: "alice"}, {CommonName: " #a+b\x00ü", Organization: []string{"A", "B"}}} {
		f.Add(must.Get(asn1.Marshal(name.ToRDNSequence()))(f))
	}
	f.Fuzz(func(t *testing.T, der []byte) {
		text, err := filter.DistinguishedName(der)
		if err == nil && strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("%q", text)
		}
	})
}
