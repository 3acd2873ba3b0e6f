package tlsstore_test

import (
	"crypto/tls"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/tlsstore"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/secret"
)

// changeHosts are the hosts of TestChange, and what is asked for.
var changeHosts = []string{"a.example", "b.example", "*.example", "c.b.example", "*.b.example", "d.d.example"}

// changeContents are certificates to put into objects: several for some hosts,
// one that has expired, one that is not valid yet, and one that is none.
func changeContents(t *testing.T, ca *issuer) []tlsstore.Certificate {
	t.Helper()
	now := time.Now()
	contents := []tlsstore.Certificate{
		ca.certificate(t, "", wanted{names: changeHosts}),
		ca.certificate(t, "", wanted{names: changeHosts[:2], to: now.Add(48 * time.Hour)}),
		ca.certificate(t, "", wanted{names: changeHosts[2:]}),
		ca.certificate(t, "", wanted{names: changeHosts, from: now.Add(-2 * time.Hour), to: now.Add(-time.Hour)}),
		ca.certificate(t, "", wanted{names: changeHosts[1:4], from: now.Add(24 * time.Hour)}),
	}
	return append(contents, tlsstore.Certificate{CertPEM: "garbage", KeyPEM: secret.New("garbage")})
}

// TestChange makes an index by many changes, and compares it after each with
// one that was built of everything.
func TestChange(t *testing.T) {
	t.Parallel()
	contents := changeContents(t, newIssuer(t))
	input := tlsstore.Input{
		Owners:  map[string]string{"a.example": "one"},
		Options: []tlsstore.HostOptions{hostOptions("o", "b.example", tlsstore.Options{ALPN: []string{"h2"}})},
	}
	built, _ := tlsstore.Build(input, nil)
	changed := built
	objects := map[tlsstore.ID]tlsstore.Certificate{}
	store := newStore(t, tlsstore.Config{})
	random := rand.New(rand.NewPCG(1, 2))
	for step := range 1500 {
		change := tlsstore.CertificateChange{}
		for range 1 + random.IntN(3) {
			id := tlsstore.ID{Namespace: []string{"one", "two"}[random.IntN(2)], Name: fmt.Sprint(random.IntN(4))}
			if _, there := objects[id]; there && random.IntN(3) == 0 {
				change.Removed = append(change.Removed, id)
				change.Set = slices.DeleteFunc(change.Set, func(c tlsstore.Certificate) bool { return c.ID == id })
				delete(objects, id)
				continue
			}
			certificate := contents[random.IntN(len(contents))]
			certificate.ID, certificate.Owner = id, id.Namespace
			certificate.Hosts = changeHosts[random.IntN(3) : 3+random.IntN(4)]
			change.Removed = slices.DeleteFunc(change.Removed, func(other tlsstore.ID) bool { return other == id })
			change.Set = append(slices.DeleteFunc(change.Set, func(c tlsstore.Certificate) bool { return c.ID == id }), certificate)
			objects[id] = certificate
		}
		input.Certificates = slices.Collect(maps.Values(objects))
		var want, got []tlsstore.Problem
		before, builtBefore := changed, built
		built, want = tlsstore.Build(input, built)
		var ok bool
		if changed, got, ok = before.Change(change); !ok {
			t.Fatalf("step %d cannot be changed", step)
		}
		if changed.Parsed() > built.Parsed() { // garbage is tried again by each build
			t.Fatalf("step %d parsed %d certificates, want at most %d", step, changed.Parsed(), built.Parsed())
		}
		if changed.Pairs() != built.Pairs() {
			t.Fatalf("step %d keeps %d certificates, want %d", step, changed.Pairs(), built.Pairs())
		}
		if !reflect.DeepEqual(got, want) && len(got)+len(want) > 0 {
			t.Fatalf("step %d has the problems\n%v, want\n%v", step, got, want)
		}
		sameIndex(t, store, changed, built)
		sameIndex(t, store, before, builtBefore) // it never changes
	}
}

// sameIndex fails when two indexes do not serve the same.
func sameIndex(t *testing.T, store *tlsstore.Store, got, want *tlsstore.Index) {
	t.Helper()
	if !reflect.DeepEqual(got.Certificates(), want.Certificates()) {
		t.Fatalf("it has %v, want %v", got.Certificates(), want.Certificates())
	}
	for _, host := range append([]string{"x.example", "x.b.example", "nobody.test"}, changeHosts...) {
		store.Swap(want)
		wantChain, wantOptions := served(t, store, host)
		store.Swap(got)
		if chain, options := served(t, store, host); !reflect.DeepEqual(chain, wantChain) || options != wantOptions {
			t.Fatalf("%s is not served as it should be", host)
		}
	}
}

// served is what a client gets that can verify everything.
func served(t *testing.T, store *tlsstore.Store, host string) ([][]byte, tlsstore.OptionsID) {
	t.Helper()
	hello := &tls.ClientHelloInfo{
		ServerName: host, SupportedVersions: []uint16{tls.VersionTLS13},
		SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256},
	}
	config := must.Get(store.GetConfigForClient(hello))(t)
	certificate := must.Get(config.GetCertificate(hello))(t)
	options, _ := store.OptionsFor(host)
	return certificate.Certificate, options.ID
}

// TestChangeRefused: Change returns false where the index has to be built again.
func TestChangeRefused(t *testing.T) {
	t.Parallel()
	ca := newIssuer(t)
	now := time.Now()
	fallback := ca.certificate(t, "default", wanted{names: []string{"default.example"}})
	soon := ca.certificate(t, "soon", wanted{names: []string{"soon.example"}, to: now.Add(time.Hour)})
	early := ca.certificate(t, "early", wanted{names: []string{"early.example"}, from: now.Add(2 * time.Hour)})
	index, _ := tlsstore.Build(tlsstore.Input{Certificates: []tlsstore.Certificate{early}, Default: &fallback, Now: now}, nil)
	if _, _, ok := index.Change(tlsstore.CertificateChange{Removed: []tlsstore.ID{fallback.ID}, Now: now}); ok {
		t.Error("the default certificate was changed")
	}
	index, _, ok := index.Change(tlsstore.CertificateChange{Set: []tlsstore.Certificate{soon}, Now: now})
	if !ok {
		t.Fatal("a certificate could not be added")
	}
	if _, _, ok := index.Change(tlsstore.CertificateChange{Now: now.Add(59 * time.Minute)}); !ok {
		t.Error("nothing has expired yet")
	}
	if _, _, ok := index.Change(tlsstore.CertificateChange{Now: now.Add(61 * time.Minute)}); ok {
		t.Error("a certificate has expired, and nobody is told")
	}
	index, _, _ = index.Change(tlsstore.CertificateChange{Removed: []tlsstore.ID{soon.ID}, Now: now})
	index, _ = tlsstore.Build(tlsstore.Input{Certificates: []tlsstore.Certificate{early}, Now: now}, index)
	if _, _, ok := index.Change(tlsstore.CertificateChange{Now: now.Add(121 * time.Minute)}); ok {
		t.Error("a certificate has become valid, and nobody is told")
	}
}
