package filter_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

func makeCertificate(t testing.TB, serial int64, subject pkix.Name) *x509.Certificate {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: subject,
		NotBefore: time.Unix(1700000000, 0), NotAfter: time.Unix(1800000000, 0),
		DNSNames: []string{"a.example", "b.example"}, EmailAddresses: []string{"a@example.com"},
		IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1)}, URIs: []*url.URL{{Scheme: "spiffe", Host: "cluster", Path: "/ns/a"}},
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
	return must.Get(x509.ParseCertificate(der))(t)
}

func certificatePolicy() route.Policy {
	return route.Policy{ForwardCertificate: &route.ForwardCertificate{
		PEMHeader: "X-Client-Cert", InfoHeader: "X-Client-Info",
		Info: []route.CertificateInfo{route.InfoSubject, route.InfoIssuer, route.InfoSerial, route.InfoNotBefore, route.InfoNotAfter, route.InfoNames},
	}}
}

// header gives the only value of a header in a head.
func header(t testing.TB, head, name string) string {
	t.Helper()
	var values []string
	for line := range strings.SplitSeq(head, "\n") {
		if key, value, ok := strings.Cut(line, ": "); ok && strings.EqualFold(key, name) {
			values = append(values, value)
		}
	}
	if len(values) != 1 {
		t.Fatalf("%d of %s in\n%s", len(values), name, head)
	}
	return values[0]
}

func TestForwardCertificate(t *testing.T) {
	chain := compile(t, filter.NewCounters(start), certificatePolicy())
	certificate := makeCertificate(t, 4711, pkix.Name{CommonName: "alice", Organization: []string{"Acme"}})
	for range 2 {
		r := begin(t, chain, get("/", "X-Client-Cert: forged", "x-client-info: forged"), func(x *filter.Exchange) { x.Certificate.Verified = certificate })
		head := r.forwarded(t, false)
		text := must.Get(url.PathUnescape(header(t, head, "X-Client-Cert")))(t)
		block, rest := pem.Decode([]byte(text))
		if block == nil || len(rest) > 0 || string(block.Bytes) != string(certificate.Raw) {
			t.Errorf("the certificate is not what the client has: %q", text)
		}
		want := `Subject="CN%3Dalice%2CO%3DAcme";Issuer="CN%3Dalice%2CO%3DAcme";SerialNumber="4711";NB="1700000000";NA="1800000000";` +
			`SAN="a.example,b.example,a%40example.com,10.0.0.1,spiffe%3A%2F%2Fcluster%2Fns%2Fa"`
		if got := header(t, head, "X-Client-Info"); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestCertificateParts: with parts of names and a bare certificate the headers are those
// of Traefik, apart from how values are escaped.
func TestCertificateParts(t *testing.T) {
	component := func(text string) pkix.AttributeTypeAndValue {
		return pkix.AttributeTypeAndValue{Type: []int{0, 9, 2342, 19200300, 100, 1, 25}, Value: text}
	}
	certificate := makeCertificate(t, 7, pkix.Name{
		CommonName: "alice", Organization: []string{"Acme", "Other"}, Country: []string{"FR"}, Province: []string{"State"}, Locality: []string{"Lyon"},
		OrganizationalUnit: []string{"Unit"}, SerialNumber: "42", ExtraNames: []pkix.AttributeTypeAndValue{component("org"), component("cheese")},
	})
	for _, test := range []struct {
		policy route.ForwardCertificate
		want   string
	}{
		{
			route.ForwardCertificate{Info: []route.CertificateInfo{route.InfoSubject}, Subject: route.NameParts()},
			`Subject="DC=org,DC=cheese,C=FR,ST=State,L=Lyon,O=Acme,O=Other,OU=Unit,SN=42,CN=alice"`,
		},
		{
			route.ForwardCertificate{
				Info: []route.CertificateInfo{route.InfoSubject, route.InfoIssuer}, Subject: []route.NamePart{route.PartCommonName}, Issuer: []route.NamePart{route.PartCountry},
			}, `Subject="CN=alice";Issuer="C=FR"`,
		},
	} {
		test.policy.PEMHeader, test.policy.InfoHeader, test.policy.Bare = "X-Client-Cert", "X-Client-Info", true
		chain := compile(t, filter.NewCounters(start), route.Policy{ForwardCertificate: &test.policy})
		head := begin(t, chain, get("/"), func(x *filter.Exchange) { x.Certificate.Verified = certificate }).forwarded(t, false)
		if got := must.Get(url.QueryUnescape(header(t, head, "X-Client-Info")))(t); got != test.want {
			t.Errorf("%s, want %s", got, test.want)
		}
		if got := header(t, head, "X-Client-Cert"); got != base64.StdEncoding.EncodeToString(certificate.Raw) {
			t.Errorf("the certificate is %s", got)
		}
	}
	empty := route.ForwardCertificate{InfoHeader: "X-Client-Info", Info: []route.CertificateInfo{route.InfoSubject, route.InfoSerial}, Subject: []route.NamePart{route.PartLocality}}
	nameless := makeCertificate(t, 8, pkix.Name{CommonName: "bob"})
	r := begin(t, compile(t, filter.NewCounters(start), route.Policy{ForwardCertificate: &empty}), get("/"), func(x *filter.Exchange) { x.Certificate.Verified = nameless })
	if got := header(t, r.forwarded(t, false), "X-Client-Info"); got != `SerialNumber="8"` {
		t.Errorf("without the part: %s", got)
	}
}

// TestForgedCertificateHeaders sends the headers without a certificate, in all
// spellings.
func TestForgedCertificateHeaders(t *testing.T) {
	chain := compile(t, filter.NewCounters(start), certificatePolicy())
	for _, name := range []string{"X-Client-Cert", "x-client-cert", "X-CLIENT-INFO", "X-Client.Info"} {
		for _, connection := range []string{"close", name} {
			r := begin(t, chain, get("/", name+": forged", "Connection: "+connection))
			if head := r.forwarded(t, true); strings.Contains(head, "forged") {
				t.Errorf("%s passes:\n%s", name, head)
			}
		}
	}
}

// TestCertificateFieldsAreApart has names that look like other fields.
func TestCertificateFieldsAreApart(t *testing.T) {
	chain := compile(t, filter.NewCounters(start), certificatePolicy())
	certificate := makeCertificate(t, 1, pkix.Name{CommonName: "x\";SAN=\"admin.example\r\nX-Evil: 1, ö"})
	r := begin(t, chain, get("/"), func(x *filter.Exchange) { x.Certificate.Verified = certificate })
	head := r.forwarded(t, false)
	if strings.Contains(head, "\nX-Evil") {
		t.Errorf("a name breaks the line:\n%s", head)
	}
	info := header(t, head, "X-Client-Info")
	fields := strings.Split(info, ";")
	if len(fields) != 6 || strings.Count(info, "SAN=") != 1 || strings.Contains(fields[5], "admin") {
		t.Errorf("a name poses as a field: %s", info)
	}
}

// TestCertificatesAreNotMixedUp goes through more certificates than are
// remembered.
func TestCertificatesAreNotMixedUp(t *testing.T) {
	chain := compile(t, filter.NewCounters(start), certificatePolicy())
	var certificates []*x509.Certificate
	for serial := range int64(40) {
		certificates = append(certificates, makeCertificate(t, serial+1, pkix.Name{CommonName: "client"}))
	}
	for range 2 {
		for i, certificate := range certificates {
			r := begin(t, chain, get("/"), func(x *filter.Exchange) { x.Certificate.Verified = certificate })
			want := `SerialNumber="` + big.NewInt(int64(i+1)).String() + `"`
			if info := header(t, r.forwarded(t, false), "X-Client-Info"); !strings.Contains(info, want) {
				t.Fatalf("certificate %d is told as %s", i+1, info)
			}
		}
	}
}
