package tlsstore_test

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/tlsstore"
	"slipway.dev/slipway/internal/must"
)

func TestSpellingsOfSNI(t *testing.T) {
	t.Parallel()
	ca := newIssuer(t)
	store := newStore(t, tlsstore.Config{})
	exact := ca.certificate(t, "exact", wanted{names: []string{"Shop.Example"}})
	wild := ca.certificate(t, "wild", wanted{names: []string{"*.shop.example"}})
	load(t, store, tlsstore.Input{Certificates: []tlsstore.Certificate{exact, wild}})
	address := serve(t, store)

	for _, name := range []string{"shop.example", "SHOP.EXAMPLE", "shop.example.", "ShOp.eXample."} {
		expect(t, address, name, exact)
	}
	for _, name := range []string{"a.shop.example", "A.Shop.Example.", "_a-.shop.example"} {
		expect(t, address, name, wild)
	}
	for _, name := range []string{"a.b.shop.example", "example", "xshop.example", "other.example", "", "127.0.0.1", "::1"} {
		expectDefault(t, address, name)
	}
}

// TestDotInSNI writes a name with the dot at its end to the wire; clients take
// it off. RFC 6066 forbids it, and a server that accepts it must find the same
// options as without. Ours does not accept it.
func TestDotInSNI(t *testing.T) {
	t.Parallel()
	store := newStore(t, tlsstore.Config{})
	address := serve(t, store)
	raw, err := net.Dial("tcp", address)
	must.Do(t, err)
	patched := &patchedConn{Conn: raw, old: "shop.examplex", new: "shop.example."}
	_, err = exchange(patched, &tls.Config{ServerName: "shop.examplex", InsecureSkipVerify: true})
	expectAlert(t, err, "error decoding message")
	if patched.count != 1 {
		t.Fatalf("the name was replaced %d times", patched.count)
	}
}

// patchedConn replaces text in what the client writes.
type patchedConn struct {
	net.Conn
	old, new string
	count    int
}

func (c *patchedConn) Write(b []byte) (int, error) {
	c.count += strings.Count(string(b), c.old)
	return c.Conn.Write([]byte(strings.ReplaceAll(string(b), c.old, c.new)))
}

func TestHostsLimitCertificate(t *testing.T) {
	t.Parallel()
	ca := newIssuer(t)
	store := newStore(t, tlsstore.Config{})
	cert := ca.certificate(t, "both", wanted{names: []string{"a.example", "b.example", "*.c.example"}})
	cert.Hosts = []string{"A.example.", "x.c.example"}
	load(t, store, tlsstore.Input{Certificates: []tlsstore.Certificate{cert}})
	address := serve(t, store)

	expect(t, address, "a.example", cert)
	expect(t, address, "x.c.example", cert)
	for _, name := range []string{"b.example", "y.c.example", "c.example"} {
		expectDefault(t, address, name)
	}
}

func TestDefaultCertificate(t *testing.T) {
	t.Parallel()
	ca := newIssuer(t)
	store := newStore(t, tlsstore.Config{})
	address := serve(t, store)
	first := shown(t, address, "a.example")
	if again := shown(t, address, "b.example"); !again.Equal(first) {
		t.Error("the self-signed certificate was made twice")
	}
	given := ca.certificate(t, "default", wanted{names: []string{"default.example"}})
	load(t, store, tlsstore.Input{Default: &given})
	expect(t, address, "a.example", given)
	expect(t, address, "", given)
	load(t, store, tlsstore.Input{})
	if again := shown(t, address, ""); !again.Equal(first) {
		t.Error("the self-signed certificate was made twice")
	}
}

func TestChoiceByValidity(t *testing.T) {
	t.Parallel()
	ca := newIssuer(t)
	now := time.Now()
	day := 24 * time.Hour
	at := func(name, host string, from, to time.Duration) tlsstore.Certificate {
		return ca.certificate(t, name, wanted{names: []string{host}, from: now.Add(from), to: now.Add(to)})
	}
	expired := at("expired", "a.example", -90*day, -day)
	longExpired := at("long-expired", "a.example", -90*day, -2*day)
	early := at("early", "a.example", day, 400*day)
	short := at("short", "a.example", -day, day)
	long := at("long", "a.example", -day, 30*day)
	wild := at("wild", "*.example", -day, day)
	wildExpired := at("wild-expired", "*.example", -90*day, -day)

	for _, tt := range []struct {
		name string
		have []tlsstore.Certificate
		want tlsstore.Certificate
	}{
		{"longest", []tlsstore.Certificate{short, long}, long},
		{"expired skipped", []tlsstore.Certificate{expired, short}, short},
		{"early skipped", []tlsstore.Certificate{early, short}, short},
		{"exact before wildcard", []tlsstore.Certificate{wild, short}, short},
		{"wildcard before expired", []tlsstore.Certificate{expired, wild}, wild},
		{"expired before default", []tlsstore.Certificate{expired}, expired},
		{"least expired", []tlsstore.Certificate{longExpired, expired}, expired},
		{"expired exact first", []tlsstore.Certificate{wildExpired, longExpired}, longExpired},
		{"expired wildcard", []tlsstore.Certificate{wildExpired}, wildExpired},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := newStore(t, tlsstore.Config{})
			address := serve(t, store)
			loadWith(store, tlsstore.Input{Certificates: tt.have})
			expect(t, address, "a.example", tt.want)
			// The order of the input does not matter.
			for i, j := 0, len(tt.have)-1; i < j; i, j = i+1, j-1 {
				tt.have[i], tt.have[j] = tt.have[j], tt.have[i]
			}
			loadWith(store, tlsstore.Input{Certificates: tt.have})
			expect(t, address, "a.example", tt.want)
		})
	}
}

func TestExpiryIsSeenWithoutRebuild(t *testing.T) {
	t.Parallel()
	ca := newIssuer(t)
	clock := newClock()
	store := newStore(t, tlsstore.Config{Now: clock.now})
	preferred := ca.certificate(t, "ecdsa", wanted{names: []string{"a.example"}, to: clock.now().Add(time.Hour)})
	key := must.Get(rsaKey())(t)
	other := ca.certificate(t, "rsa", wanted{names: []string{"a.example"}, key: key, to: clock.now().Add(48 * time.Hour)})
	load(t, store, tlsstore.Input{Certificates: []tlsstore.Certificate{preferred, other}})
	address := serve(t, store)
	expect(t, address, "a.example", preferred)
	clock.advance(2 * time.Hour)
	expect(t, address, "a.example", other)
}

func TestChoiceByKey(t *testing.T) {
	t.Parallel()
	ca := newIssuer(t)
	rsaSigner := must.Get(rsaKey())(t)
	_, edSigner, err := ed25519.GenerateKey(rand.Reader)
	must.Do(t, err)
	year := time.Now().AddDate(1, 0, 0)
	withKey := func(name string, key crypto.Signer) tlsstore.Certificate {
		return ca.certificate(t, name, wanted{names: []string{"a.example"}, key: key, to: year})
	}
	rsaCert, edCert := withKey("rsa", rsaSigner), withKey("ed25519", edSigner)
	// The shortest validity: it is preferred for its key alone.
	ecCert := ca.certificate(t, "ecdsa", wanted{names: []string{"a.example"}})
	store := newStore(t, tlsstore.Config{})
	load(t, store, tlsstore.Input{Certificates: []tlsstore.Certificate{rsaCert, edCert, ecCert}})
	address := serve(t, store)

	only := func(suites ...uint16) *tls.Config {
		return &tls.Config{ServerName: "a.example", RootCAs: ca.Pool, MaxVersion: tls.VersionTLS12, CipherSuites: suites}
	}
	for _, tt := range []struct {
		name   string
		client *tls.Config
		want   tlsstore.Certificate
	}{
		{"tls13", &tls.Config{ServerName: "a.example", RootCAs: ca.Pool}, ecCert},
		{"tls12", only(), ecCert},
		{"ecdsa suite", only(tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256), ecCert},
		{"rsa suite", only(tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256), rsaCert},
	} {
		t.Run(tt.name, func(t *testing.T) {
			state := must.Get(dial(t, address, tt.client))(t)
			if got := state.PeerCertificates[0].PublicKeyAlgorithm; !strings.EqualFold(got.String(), tt.want.ID.Name) {
				t.Errorf("got a key of kind %s, want %s", got, tt.want.ID.Name)
			}
		})
	}

	load(t, store, tlsstore.Input{Certificates: []tlsstore.Certificate{ecCert}})
	_, err = dial(t, address, only(tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256))
	expectAlert(t, err, "handshake failure")
}

func TestRotationOnNextHandshake(t *testing.T) {
	t.Parallel()
	ca := newIssuer(t)
	store := newStore(t, tlsstore.Config{})
	address := serve(t, store)
	for range 20 {
		cert := ca.certificate(t, "rotated", wanted{names: []string{"a.example"}})
		load(t, store, tlsstore.Input{Certificates: []tlsstore.Certificate{cert}})
		expect(t, address, "a.example", cert)
	}
	load(t, store, tlsstore.Input{})
	expectDefault(t, address, "a.example")
}

func TestOwners(t *testing.T) {
	t.Parallel()
	ca := newIssuer(t)
	owned := func(name, owner string, names ...string) tlsstore.Certificate {
		// The stranger's is the better certificate.
		to := time.Now().Add(24 * time.Hour)
		if owner == "stranger" {
			to = time.Now().AddDate(50, 0, 0)
		}
		c := ca.certificate(t, name, wanted{names: names, to: to})
		c.Owner = owner
		return c
	}
	shop := owned("shop", "shop", "a.example")
	stranger := owned("stranger", "stranger", "a.example", "free.example")
	strangerWild := owned("stranger-wild", "stranger", "*.example")
	operator := owned("operator", "", "*.example")
	owners := map[string]string{"A.Example": "shop", "b.example": "shop"}

	t.Run("exact", func(t *testing.T) {
		store := newStore(t, tlsstore.Config{})
		address := serve(t, store)
		problems := loadWith(store, tlsstore.Input{Certificates: []tlsstore.Certificate{stranger, shop}, Owners: owners})
		expect(t, address, "a.example", shop)
		expect(t, address, "free.example", stranger)
		if len(problems) != 1 || problems[0].Reason != tlsstore.ReasonHostOwned || problems[0].Field != "a.example" || problems[0].Namespace != stranger.ID.Namespace || problems[0].Name != stranger.ID.Name {
			t.Errorf("problems: %v", problems)
		}
	})
	t.Run("wildcard", func(t *testing.T) {
		store := newStore(t, tlsstore.Config{})
		address := serve(t, store)
		load(t, store, tlsstore.Input{Certificates: []tlsstore.Certificate{strangerWild}, Owners: owners})
		expectDefault(t, address, "b.example")
		expect(t, address, "c.example", strangerWild)
		load(t, store, tlsstore.Input{Certificates: []tlsstore.Certificate{strangerWild, operator}, Owners: owners})
		expect(t, address, "b.example", operator)
	})
}
