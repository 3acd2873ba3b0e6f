package tlsstore_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/edge/tlsstore"
	"slipway.dev/slipway/internal/must"
)

// fuzzNames are the names of the certificates that FuzzLookup draws from. Each
// is also the host of options with an identity of its own.
var fuzzNames = []string{
	"a", "b.a", "*.a", "*.b.a", "c.b.a", "A.B.C.example", "*.C.example.", "*.example", "example", "x-.example", "*.x-.example", "1.a",
}

// FuzzLookup compares the choice of certificate and options with a naive
// reading of all names, for any SNI and any selection of certificates.
func FuzzLookup(f *testing.F) {
	ca := newIssuer(f)
	certs := make([]tlsstore.Certificate, len(fuzzNames))
	options := make([]tlsstore.HostOptions, len(fuzzNames))
	for i, name := range fuzzNames {
		certs[i] = ca.certificate(f, fmt.Sprint(i), wanted{names: []string{strings.TrimSuffix(name, ".")}})
		certs[i].Hosts = []string{name}
		options[i] = hostOptions(fmt.Sprint(i), name, tlsstore.Options{ALPN: []string{"p" + fmt.Sprint(i)}})
	}
	all, problems := tlsstore.Build(tlsstore.Input{Certificates: certs}, nil)
	if len(problems) > 0 {
		f.Fatal(problems)
	}
	store := newStore(f, tlsstore.Config{})
	for _, seed := range append([]string{"", "c.b.a", "B.A.", "d.b.a", "a.a.a", "z.example", "127.0.0.1", "*.a", "..", "1.1"}, fuzzNames...) {
		f.Add(seed, uint16(0xffff), uint16(0xffff))
		f.Add(seed, uint16(0x5555), uint16(0x3333))
	}
	f.Fuzz(func(t *testing.T, sni string, certMask, optionMask uint16) {
		in := tlsstore.Input{}
		for i := range fuzzNames {
			if certMask>>i&1 == 1 {
				in.Certificates = append(in.Certificates, certs[i])
			}
			if optionMask>>i&1 == 1 {
				in.Options = append(in.Options, options[i])
			}
		}
		index, problems := tlsstore.Build(in, all)
		if len(problems) > 0 || index.Parsed() > 0 {
			t.Fatalf("%d parsed, problems: %v", index.Parsed(), problems)
		}
		store.Swap(index)

		hello := &tls.ClientHelloInfo{ServerName: sni}
		config := must.Get(store.GetConfigForClient(hello))(t)
		certificate := must.Get(config.GetCertificate(hello))(t)
		if got, want := certName(t, certificate), oracle(sni, certMask, "default.slipway.invalid"); got != want {
			t.Errorf("SNI %q got the certificate for %q, want %q", sni, got, want)
		}
		want := "h2"
		if i := oracleIndex(sni, optionMask); i >= 0 {
			want = "p" + fmt.Sprint(i)
		}
		if got := config.NextProtos[0]; got != want {
			t.Errorf("SNI %q got the options of %q, want %q", sni, got, want)
		}
	})
}

func certName(t *testing.T, certificate *tls.Certificate) string {
	t.Helper()
	leaf := must.Get(x509.ParseCertificate(certificate.Certificate[0]))(t)
	return leaf.DNSNames[0]
}

func oracle(sni string, mask uint16, fallback string) string {
	if i := oracleIndex(sni, mask); i >= 0 {
		return strings.TrimSuffix(fuzzNames[i], ".")
	}
	return fallback
}

// oracleIndex reads all names one after the other: the same name wins, then
// the one whose star can be replaced by the first label.
func oracleIndex(sni string, mask uint16) int {
	name, ok := naiveName(sni)
	if !ok {
		return -1
	}
	labels := strings.Split(name, ".")
	labels[0] = "*"
	for _, want := range []string{name, strings.Join(labels, ".")} {
		for i, have := range fuzzNames {
			if mask>>i&1 == 1 && strings.ToLower(strings.TrimSuffix(have, ".")) == want {
				return i
			}
		}
	}
	return -1
}
