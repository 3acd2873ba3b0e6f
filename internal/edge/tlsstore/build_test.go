package tlsstore_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/edge/tlsstore"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/secret"
)

// TestBrokenIsIsolated gives an index many bad certificates and one good one.
func TestBrokenIsIsolated(t *testing.T) {
	t.Parallel()
	ca := newIssuer(t)
	good := ca.certificate(t, "good", wanted{names: []string{"good.example"}})
	other := ca.certificate(t, "other", wanted{names: []string{"other.example"}})
	broken := func(name string, change func(*tlsstore.Certificate)) tlsstore.Certificate {
		c := ca.certificate(t, name, wanted{names: []string{name + ".example"}})
		change(&c)
		return c
	}
	block, _ := pem.Decode([]byte(good.CertPEM))
	block.Bytes = block.Bytes[:len(block.Bytes)-9]
	truncated := string(pem.EncodeToMemory(block))

	certs := []tlsstore.Certificate{
		broken("empty", func(c *tlsstore.Certificate) { c.CertPEM = "" }),
		broken("no-key", func(c *tlsstore.Certificate) { c.KeyPEM = secret.Text{} }),
		broken("garbage", func(c *tlsstore.Certificate) { c.CertPEM = "garbage" }),
		broken("garbage-key", func(c *tlsstore.Certificate) { c.KeyPEM = secret.New("garbage") }),
		broken("other-key", func(c *tlsstore.Certificate) { c.KeyPEM = other.KeyPEM }),
		broken("truncated", func(c *tlsstore.Certificate) { c.CertPEM = truncated }),
		broken("bad-chain", func(c *tlsstore.Certificate) { c.CertPEM += truncated }),
		broken("huge", func(c *tlsstore.Certificate) { c.CertPEM += strings.Repeat("\n", 256<<10) }),
		broken("huge-key", func(c *tlsstore.Certificate) { c.KeyPEM = secret.New(strings.Repeat("\n", 65<<10)) }),
		broken("long-chain", func(c *tlsstore.Certificate) { c.CertPEM += strings.Repeat(ca.PEM, 16) }),
		broken("stranger-host", func(c *tlsstore.Certificate) { c.Hosts = []string{"good.example"} }),
		broken("bad-host", func(c *tlsstore.Certificate) { c.Hosts = []string{"10.0.0.1", "bad-host.example"} }),
		ca.certificate(t, "nameless", wanted{}),
		ca.certificate(t, "expired", wanted{names: []string{"expired.example"}, from: time.Now().Add(-2 * time.Hour), to: time.Now().Add(-time.Hour)}),
		ca.certificate(t, "early", wanted{names: []string{"early.example"}, from: time.Now().Add(time.Hour)}),
		good,
	}
	want := map[string]refusal.Reason{
		"empty": refusal.Unreadable, "no-key": refusal.Unreadable, "garbage": refusal.Unreadable,
		"garbage-key": refusal.Unreadable, "other-key": refusal.Unreadable, "truncated": refusal.Unreadable,
		"bad-chain": refusal.Unreadable, "huge": refusal.TooLarge, "huge-key": refusal.TooLarge,
		"long-chain": refusal.TooLarge, "stranger-host": tlsstore.ReasonNotCovered, "bad-host": tlsstore.ReasonBadHost,
		"nameless": tlsstore.ReasonNoNames, "expired": tlsstore.ReasonExpired, "early": tlsstore.ReasonNotYetValid,
	}

	store := newStore(t, tlsstore.Config{})
	problems := loadWith(store, tlsstore.Input{Certificates: certs})
	if len(problems) != len(want) {
		t.Errorf("%d problems, want %d: %v", len(problems), len(want), problems)
	}
	for _, p := range problems {
		if p.Reason != want[p.Name] || p.Message == "" {
			t.Errorf("%s has the reason %s, want %s", p, p.Reason, want[p.Name])
		}
		if served := p.Name == "expired" || p.Name == "early"; p.Served != served {
			t.Errorf("%s: served is %t", p, p.Served)
		}
		if strings.Contains(p.String(), "PRIVATE KEY-----") {
			t.Errorf("%s shows a key", p)
		}
	}
	address := serve(t, store)
	expect(t, address, "good.example", good)
	expectDefault(t, address, "other-key.example")
	expect(t, address, "bad-host.example", certs[11])
}

// TestGarbageKeepsLastGood: a Secret that is overwritten with garbage keeps
// its certificate as long as the object exists.
func TestGarbageKeepsLastGood(t *testing.T) {
	t.Parallel()
	ca := newIssuer(t)
	store := newStore(t, tlsstore.Config{})
	address := serve(t, store)
	good := ca.certificate(t, "site", wanted{names: []string{"a.example"}})
	garbage := good
	garbage.CertPEM = "garbage"
	load(t, store, tlsstore.Input{Certificates: []tlsstore.Certificate{good}})
	for range 3 {
		problems := loadWith(store, tlsstore.Input{Certificates: []tlsstore.Certificate{garbage}})
		if len(problems) != 1 || !problems[0].Served || !strings.Contains(problems[0].Message, "last good") {
			t.Fatalf("problems: %v", problems)
		}
		expect(t, address, "a.example", good)
	}
	load(t, store, tlsstore.Input{})
	if problems := loadWith(store, tlsstore.Input{Certificates: []tlsstore.Certificate{garbage}}); len(problems) != 1 || problems[0].Served {
		t.Fatalf("problems: %v", problems)
	}
	expectDefault(t, address, "a.example")
}

func TestUnchangedIsNotParsed(t *testing.T) {
	t.Parallel()
	ca := newIssuer(t)
	key := ecdsaKey(t)
	var in tlsstore.Input
	for i := range 200 {
		name := fmt.Sprintf("host-%d", i)
		in.Certificates = append(in.Certificates, ca.certificate(t, name, wanted{names: []string{name + ".example"}, key: key}))
	}
	// A copy in another namespace is the same certificate.
	twin := in.Certificates[0]
	twin.ID.Namespace = "twin"
	in.Certificates = append(in.Certificates, twin)

	first, _ := tlsstore.Build(in, nil)
	if first.Parsed() != 200 {
		t.Errorf("the first build parsed %d certificates", first.Parsed())
	}
	second, _ := tlsstore.Build(in, first)
	if second.Parsed() != 0 {
		t.Errorf("an equal build parsed %d certificates", second.Parsed())
	}
	in.Certificates[7] = ca.certificate(t, "host-7", wanted{names: []string{"host-7.example"}})
	third, _ := tlsstore.Build(in, second)
	if third.Parsed() != 1 {
		t.Errorf("a build with one change parsed %d certificates", third.Parsed())
	}
	if got := len(third.Certificates()); got != 201 {
		t.Errorf("the index lists %d certificates, want 201", got)
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	ca := newIssuer(t)
	cert := ca.certificate(t, "site", wanted{names: []string{"a.example"}})
	asJSON := must.Get(json.Marshal(cert))(t)
	wrapped := struct{ inner tlsstore.Certificate }{cert}
	for _, text := range []string{
		fmt.Sprint(cert), fmt.Sprintf("%+v", cert), fmt.Sprintf("%#v", cert), fmt.Sprintf("%x", cert.KeyPEM),
		fmt.Sprintf("%q", cert.KeyPEM), fmt.Sprintf("%+v", wrapped), string(asJSON), cert.KeyPEM.LogValue().String(),
	} {
		if strings.Contains(text, "PRIVATE KEY") || strings.Contains(text, "50524956415445") {
			t.Errorf("the key is shown: %.200s", text)
		}
	}
	if cert.KeyPEM.String() != "[redacted]" {
		t.Errorf("a key is shown as %q", cert.KeyPEM)
	}
}
