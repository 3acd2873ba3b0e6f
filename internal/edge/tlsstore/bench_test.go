package tlsstore_test

import (
	"crypto/tls"
	"fmt"
	"testing"

	"slipway.dev/slipway/internal/edge/tlsstore"
	"slipway.dev/slipway/internal/must"
)

const benchCertificates = 10_000

// benchInput is many certificates of one key, half of them wildcards.
func benchInput(b *testing.B, ca *issuer) tlsstore.Input {
	b.Helper()
	key := ecdsaKey(b)
	in := tlsstore.Input{Certificates: make([]tlsstore.Certificate, benchCertificates)}
	for i := range in.Certificates {
		name := fmt.Sprintf("host-%d.example", i)
		if i%2 == 1 {
			name = "*." + name
		}
		in.Certificates[i] = ca.certificate(b, fmt.Sprintf("cert-%d", i), wanted{names: []string{name}, key: key})
	}
	return in
}

// BenchmarkLookup is what the store adds to a handshake: options and
// certificate.
func BenchmarkLookup(b *testing.B) {
	store := newStore(b, tlsstore.Config{})
	load(b, store, benchInput(b, newIssuer(b)))
	for _, bench := range []struct{ name, sni string }{
		{"exact", "host-5000.example"},
		{"upper", "HOST-5000.EXAMPLE"},
		{"wildcard", "www.host-5001.example"},
		{"unknown", "nobody.knows.this.name.example"},
		{"none", ""},
	} {
		b.Run(bench.name, func(b *testing.B) {
			hello := &tls.ClientHelloInfo{
				ServerName:        bench.sni,
				SupportedVersions: []uint16{tls.VersionTLS13},
				SignatureSchemes:  []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256},
			}
			b.ReportAllocs()
			for b.Loop() {
				config, err := store.GetConfigForClient(hello)
				must.Do(b, err)
				_, err = config.GetCertificate(hello)
				must.Do(b, err)
			}
		})
	}
}

// BenchmarkRebuild is a change of one certificate among many.
func BenchmarkRebuild(b *testing.B) {
	ca := newIssuer(b)
	in := benchInput(b, ca)
	store := newStore(b, tlsstore.Config{})
	load(b, store, in)
	fresh := make([]tlsstore.Certificate, 2)
	for i := range fresh {
		fresh[i] = ca.certificate(b, "cert-0", wanted{names: []string{"host-0.example"}})
	}
	b.ReportAllocs()
	turn := 0
	for b.Loop() {
		in.Certificates[0] = fresh[turn%2]
		turn++
		index, _ := tlsstore.Build(in, store.Index())
		if index.Parsed() != 1 {
			b.Fatalf("%d certificates were parsed", index.Parsed())
		}
		store.Swap(index)
	}
}

// BenchmarkChange is the same by a change.
func BenchmarkChange(b *testing.B) {
	ca := newIssuer(b)
	store := newStore(b, tlsstore.Config{})
	load(b, store, benchInput(b, ca))
	fresh := make([]tlsstore.Certificate, 2)
	for i := range fresh {
		fresh[i] = ca.certificate(b, "cert-0", wanted{names: []string{"host-0.example"}})
	}
	b.ReportAllocs()
	turn := 0
	for b.Loop() {
		index, _, ok := store.Index().Change(tlsstore.CertificateChange{Set: fresh[turn%2 : turn%2+1]})
		turn++
		if !ok || index.Parsed() != 1 {
			b.Fatalf("%d certificates were parsed", index.Parsed())
		}
		store.Swap(index)
	}
}

// BenchmarkHandshake is a whole handshake over a pipe, to set the others
// against.
func BenchmarkHandshake(b *testing.B) {
	ca := newIssuer(b)
	store := newStore(b, tlsstore.Config{})
	load(b, store, tlsstore.Input{Certificates: []tlsstore.Certificate{ca.certificate(b, "a", wanted{names: []string{"a.example"}})}})
	for b.Loop() {
		handshake(b, store, "a.example")
	}
}

// TestLookupDoesNotAllocate holds the lookup to no allocation of its own.
func TestLookupDoesNotAllocate(t *testing.T) {
	ca := newIssuer(t)
	store := newStore(t, tlsstore.Config{})
	load(t, store, tlsstore.Input{Certificates: []tlsstore.Certificate{
		ca.certificate(t, "a", wanted{names: []string{"a.example", "*.b.example"}}),
	}})
	for _, sni := range []string{"a.example", "A.EXAMPLE.", "x.b.example", "unknown.example", ""} {
		hello := &tls.ClientHelloInfo{ServerName: sni, SupportedVersions: []uint16{tls.VersionTLS13}}
		got := testing.AllocsPerRun(100, func() {
			config, _ := store.GetConfigForClient(hello)
			_, _ = config.GetCertificate(hello)
		})
		if got > 0 {
			t.Errorf("SNI %q: %v allocations", sni, got)
		}
	}
}
