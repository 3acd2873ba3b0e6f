package tlsstore_test

import (
	"crypto/tls"
	"reflect"
	"testing"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/edge/tlsstore"
	"slipway.dev/slipway/internal/must"
)

// clientAuth are options that need a certificate of an authority.
func clientAuth(ca *issuer) tlsstore.Options {
	return tlsstore.Options{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.PEM}
}

// hostOptions gives one host its options.
func hostOptions(name, host string, o tlsstore.Options) tlsstore.HostOptions {
	return tlsstore.HostOptions{ID: tlsstore.ID{Namespace: "shop", Name: name}, Owner: "shop", Hosts: []string{host}, Options: o}
}

func TestClientCertificates(t *testing.T) {
	t.Parallel()
	ca, stranger := newIssuer(t), newIssuer(t)
	store := newStore(t, tlsstore.Config{})
	load(t, store, tlsstore.Input{Options: []tlsstore.HostOptions{
		hostOptions("exact", "Mtls.example.", clientAuth(ca)),
		hostOptions("wild", "*.mtls.example", clientAuth(ca)),
		hostOptions("open", "open.mtls.example", tlsstore.Options{}),
	}})
	address := serve(t, store)
	for _, tt := range []struct {
		name, sni string
		protected bool
	}{
		{"exact", "mtls.example", true},
		{"upper", "MTLS.EXAMPLE", true},
		{"dot", "mtls.example.", true},
		{"wildcard", "a.mtls.example", true},
		{"wildcard upper", "A.MTLS.example.", true},
		{"exception", "open.mtls.example", false},
		{"two labels", "a.b.mtls.example", false},
		{"other", "example", false},
		{"none", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
				config := &tls.Config{ServerName: tt.sni, InsecureSkipVerify: true, MaxVersion: version}
				if _, err := dial(t, address, config); (err != nil) != tt.protected {
					t.Errorf("without a certificate: %v", err)
				}
				config.Certificates = []tls.Certificate{stranger.client(t)}
				// The server's hint makes a client withhold a certificate of
				// another authority; insist.
				config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
					return &config.Certificates[0], nil
				}
				if _, err := dial(t, address, config); (err != nil) != tt.protected {
					t.Errorf("with a stranger's certificate: %v", err)
				}
				config.Certificates = []tls.Certificate{ca.client(t)}
				if _, err := dial(t, address, config); err != nil {
					t.Errorf("with a good certificate: %v", err)
				}
			}
		})
	}
}

func TestVersionsSuitesAndProtocols(t *testing.T) {
	t.Parallel()
	store := newStore(t, tlsstore.Config{})
	load(t, store, tlsstore.Input{Options: []tlsstore.HostOptions{
		hostOptions("old", "old.example", tlsstore.Options{MinVersion: tls.VersionTLS11, MaxVersion: tls.VersionTLS12}),
		hostOptions("new", "new.example", tlsstore.Options{MinVersion: tls.VersionTLS13}),
		hostOptions("suite", "suite.example", tlsstore.Options{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384}}),
		hostOptions("h1", "h1.example", tlsstore.Options{ALPN: []string{"http/1.1"}}),
	}})
	address := serve(t, store)
	client := func(name string, low, high uint16, protos ...string) (tls.ConnectionState, error) {
		return dial(t, address, &tls.Config{ServerName: name, InsecureSkipVerify: true, MinVersion: low, MaxVersion: high, NextProtos: protos})
	}
	_, err := client("any.example", tls.VersionTLS10, tls.VersionTLS11)
	expectAlert(t, err, "protocol version not supported")
	_, err = client("new.example", tls.VersionTLS12, tls.VersionTLS12)
	expectAlert(t, err, "protocol version not supported")
	state := must.Get(client("old.example", tls.VersionTLS11, tls.VersionTLS13))(t)
	if state.Version != tls.VersionTLS12 {
		t.Errorf("old.example speaks %s", tls.VersionName(state.Version))
	}
	_, err = client("old.example", tls.VersionTLS11, tls.VersionTLS11)
	must.Do(t, err)
	state, err = client("suite.example", 0, 0)
	must.Do(t, err)
	if state.CipherSuite != tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 {
		t.Errorf("suite.example uses %s", tls.CipherSuiteName(state.CipherSuite))
	}
	for _, tt := range []struct{ host, want string }{{"any.example", "h2"}, {"h1.example", "http/1.1"}} {
		state := must.Get(client(tt.host, 0, 0, "http/1.1", "h2"))(t)
		if state.NegotiatedProtocol != tt.want {
			t.Errorf("%s speaks %q, want %q", tt.host, state.NegotiatedProtocol, tt.want)
		}
	}
}

func TestSNIStrict(t *testing.T) {
	t.Parallel()
	ca := newIssuer(t)
	store := newStore(t, tlsstore.Config{})
	cert := ca.certificate(t, "a", wanted{names: []string{"a.example", "*.b.example"}})
	in := tlsstore.Input{Certificates: []tlsstore.Certificate{cert}, DefaultOptions: tlsstore.Options{SNIStrict: true}}
	load(t, store, in)
	address := serve(t, store)
	expect(t, address, "a.example", cert)
	expect(t, address, "x.b.example", cert)

	sessions := tls.NewLRUClientSessionCache(1)
	config := &tls.Config{ServerName: "a.example", InsecureSkipVerify: true, ClientSessionCache: sessions}
	_, err := dial(t, address, config)
	must.Do(t, err)
	for _, name := range []string{"c.example", "", "127.0.0.1"} {
		_, err := dial(t, address, &tls.Config{ServerName: name, InsecureSkipVerify: true})
		expectAlert(t, err, "unrecognized name")
	}
	// A session that was made for a known name does not open unknown ones.
	load(t, store, tlsstore.Input{DefaultOptions: in.DefaultOptions})
	_, err = dial(t, address, config)
	expectAlert(t, err, "unrecognized name")
}

func TestRefusedOptions(t *testing.T) {
	t.Parallel()
	ca, other := newIssuer(t), newIssuer(t)
	const host = "a.example"
	for _, tt := range []struct {
		name    string
		options []tlsstore.Options
		want    refusal.Reason
	}{
		{"no authority", []tlsstore.Options{{ClientAuth: tls.RequireAndVerifyClientCert}}, tlsstore.ReasonBadOptions},
		{"bad authority", []tlsstore.Options{{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: "garbage"}}, tlsstore.ReasonBadOptions},
		{"half an authority", []tlsstore.Options{{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.PEM + other.PEM[:100]}}, tlsstore.ReasonBadOptions},
		{"no auth", []tlsstore.Options{{ClientCAs: ca.PEM}}, tlsstore.ReasonBadOptions},
		{"unverified", []tlsstore.Options{{ClientAuth: tls.RequireAnyClientCert, ClientCAs: ca.PEM}}, tlsstore.ReasonBadOptions},
		{"unknown auth", []tlsstore.Options{{ClientAuth: 9}}, tlsstore.ReasonBadOptions},
		{"versions", []tlsstore.Options{{MinVersion: tls.VersionTLS13, MaxVersion: tls.VersionTLS12}}, tlsstore.ReasonBadOptions},
		{"ssl3", []tlsstore.Options{{MinVersion: 0x0300}}, tlsstore.ReasonBadOptions},
		{"unknown suite", []tlsstore.Options{{CipherSuites: []uint16{0xffff}}}, tlsstore.ReasonBadOptions},
		{"tls13 suite", []tlsstore.Options{{CipherSuites: []uint16{tls.TLS_AES_128_GCM_SHA256}}}, tlsstore.ReasonBadOptions},
		{"acme", []tlsstore.Options{{ALPN: []string{"h2", "acme-tls/1"}}}, tlsstore.ReasonBadOptions},
		{"conflict", []tlsstore.Options{{}, clientAuth(ca)}, tlsstore.ReasonConflict},
		{"conflict after", []tlsstore.Options{clientAuth(ca), {}}, tlsstore.ReasonConflict},
		{"good and bad", []tlsstore.Options{{}, {ClientAuth: 9}}, tlsstore.ReasonBadOptions},
		{"bad and good", []tlsstore.Options{{ClientAuth: 9}, {}}, tlsstore.ReasonBadOptions},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := newStore(t, tlsstore.Config{})
			var in tlsstore.Input
			for i, o := range tt.options {
				in.Options = append(in.Options, hostOptions(string(rune('a'+i)), host, o))
			}
			problems := loadWith(store, in)
			if len(problems) != 1 || problems[0].Reason != tt.want || problems[0].Kind != tlsstore.KindOptions || problems[0].Served {
				t.Fatalf("problems: %v", problems)
			}
			conn := handshake(t, store, host)
			if got := store.Decide(conn, host); got != tlsstore.Refused {
				t.Errorf("the verdict on the refused host is %s", got)
			}
			if store.PlaintextAllowed(host) {
				t.Error("the refused host may be served without TLS")
			}
			if got := store.Decide(conn, "other.example"); got != tlsstore.Serve {
				t.Errorf("the verdict on another host is %s", got)
			}
			in.Options = []tlsstore.HostOptions{hostOptions("wild", "*.example", tt.options[0]), hostOptions("wild2", "*.example", tt.options[len(tt.options)-1])}
			loadWith(store, in)
			if got := store.Decide(conn, "b.example"); got != tlsstore.Refused {
				t.Errorf("the verdict on a name below a refused wildcard is %s", got)
			}
		})
	}
}

func TestRefusedDefaultOptions(t *testing.T) {
	t.Parallel()
	store := newStore(t, tlsstore.Config{})
	problems := loadWith(store, tlsstore.Input{
		DefaultOptions: tlsstore.Options{ClientAuth: tls.RequireAndVerifyClientCert},
		Options:        []tlsstore.HostOptions{hostOptions("own", "own.example", tlsstore.Options{MinVersion: tls.VersionTLS13})},
	})
	if len(problems) != 1 {
		t.Fatalf("problems: %v", problems)
	}
	if got := store.Decide(handshake(t, store, "a.example"), "a.example"); got != tlsstore.Refused {
		t.Errorf("the verdict on a host with the default options is %s", got)
	}
	if got := store.Decide(handshake(t, store, "own.example"), "own.example"); got != tlsstore.Serve {
		t.Errorf("the verdict on a host with its own options is %s", got)
	}
}

func TestOptionsOfStrangers(t *testing.T) {
	t.Parallel()
	ca := newIssuer(t)
	store := newStore(t, tlsstore.Config{})
	strange := hostOptions("strange", "a.example", clientAuth(ca))
	strange.Owner = "stranger"
	problems := loadWith(store, tlsstore.Input{
		Options: []tlsstore.HostOptions{strange, hostOptions("own", "a.example", tlsstore.Options{MinVersion: tls.VersionTLS13})},
		Owners:  map[string]string{"a.example": "shop"},
	})
	if len(problems) != 1 || problems[0].Reason != tlsstore.ReasonHostOwned || problems[0].Namespace != strange.ID.Namespace || problems[0].Name != strange.ID.Name {
		t.Fatalf("problems: %v", problems)
	}
	if got := store.Decide(handshake(t, store, "a.example"), "a.example"); got != tlsstore.Serve {
		t.Errorf("the verdict is %s", got)
	}
}

// TestOptionsIdentity changes each field of Options and expects another
// identity. A field that identify forgets would let a connection made with one
// value serve hosts with another.
func TestOptionsIdentity(t *testing.T) {
	t.Parallel()
	ca := newIssuer(t)
	base := tlsstore.Options{
		MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS13, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.PEM,
		CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}, ALPN: []string{"h2"},
	}
	changes := map[string]func(*tlsstore.Options){
		"MinVersion":   func(o *tlsstore.Options) { o.MinVersion = tls.VersionTLS13 },
		"MaxVersion":   func(o *tlsstore.Options) { o.MaxVersion = tls.VersionTLS12 },
		"CipherSuites": func(o *tlsstore.Options) { o.CipherSuites = nil },
		"ClientAuth":   func(o *tlsstore.Options) { o.ClientAuth = tls.VerifyClientCertIfGiven },
		"ClientCAs":    func(o *tlsstore.Options) { o.ClientCAs = newIssuer(t).PEM },
		"ALPN":         func(o *tlsstore.Options) { o.ALPN = []string{"http/1.1"} },
		"SNIStrict":    func(o *tlsstore.Options) { o.SNIStrict = true },
	}
	fields := reflect.TypeFor[tlsstore.Options]()
	for i := range fields.NumField() {
		if name := fields.Field(i).Name; changes[name] == nil {
			t.Errorf("field %s has no change in this test", name)
		}
	}
	identity := func(o tlsstore.Options) tlsstore.OptionsID {
		store := newStore(t, tlsstore.Config{})
		load(t, store, tlsstore.Input{Options: []tlsstore.HostOptions{hostOptions("x", "a.example", o)}})
		info, ok := store.OptionsFor("a.example")
		if !ok || info.ClientAuth != o.ClientAuth {
			t.Fatalf("OptionsFor: %+v, %t", info, ok)
		}
		return info.ID
	}
	seen := map[tlsstore.OptionsID]string{identity(base): "base"}
	for name, change := range changes {
		o := base
		change(&o)
		id := identity(o)
		if other, twice := seen[id]; twice {
			t.Errorf("a change of %s gives the identity of %s", name, other)
		}
		seen[id] = name
	}
	spelt := tlsstore.Options{MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS13, ALPN: []string{"h2", "http/1.1"}}
	if identity(tlsstore.Options{}) != identity(spelt) {
		t.Error("the default options and the same spelt out have different identities")
	}
}
