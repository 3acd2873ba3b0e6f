package tlsstore_test

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/tlsstore"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/secret"
)

// sessions is a client that keeps its tickets.
type sessions struct {
	cache        tls.ClientSessionCache
	certificates []tls.Certificate
	version      uint16
	now          func() time.Time
}

func newSessions(version uint16, certificates ...tls.Certificate) *sessions {
	return &sessions{cache: tls.NewLRUClientSessionCache(8), version: version, certificates: certificates, now: time.Now}
}

// resumes makes a connection and reports whether it resumed a session.
func (s *sessions) resumes(t *testing.T, address string) bool {
	t.Helper()
	state := must.Get(dial(t, address, s.config()))(t)
	return state.DidResume
}

func (s *sessions) config() *tls.Config {
	return &tls.Config{
		ServerName: "a.example", InsecureSkipVerify: true, ClientSessionCache: s.cache,
		MaxVersion: s.version, Certificates: s.certificates, Time: s.now,
	}
}

// eachVersion runs a test with TLS 1.2 and 1.3, which resume differently.
func eachVersion(t *testing.T, test func(*testing.T, uint16)) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(strings.ReplaceAll(tls.VersionName(version), " ", ""), func(t *testing.T) {
			t.Parallel()
			test(t, version)
		})
	}
}

func TestResumeAcrossSwap(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version uint16) {
		ca := newIssuer(t)
		store := newStore(t, tlsstore.Config{})
		address := serve(t, store)
		own := hostOptions("own", "a.example", tlsstore.Options{ALPN: []string{"http/1.1"}})
		load(t, store, tlsstore.Input{Options: []tlsstore.HostOptions{own}})
		client := newSessions(version)
		if client.resumes(t, address) {
			t.Fatal("the first connection resumed a session")
		}
		if !client.resumes(t, address) {
			t.Fatal("the session was not resumed")
		}
		for range 3 {
			cert := ca.certificate(t, "a", wanted{names: []string{"a.example"}})
			load(t, store, tlsstore.Input{Certificates: []tlsstore.Certificate{cert}, Options: []tlsstore.HostOptions{own}})
			if !client.resumes(t, address) {
				t.Error("the session was not resumed after a swap")
			}
		}
		// The options go away and come back, with a new config.
		load(t, store, tlsstore.Input{})
		load(t, store, tlsstore.Input{Options: []tlsstore.HostOptions{own}})
		if !client.resumes(t, address) {
			t.Error("the session was not resumed after its options came back")
		}
	})
}

func TestNoResumeAcrossClientAuth(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version uint16) {
		ca, other := newIssuer(t), newIssuer(t)
		store := newStore(t, tlsstore.Config{})
		address := serve(t, store)
		options := func(o tlsstore.Options) {
			load(t, store, tlsstore.Input{Options: []tlsstore.HostOptions{hostOptions("own", "a.example", o)}})
		}
		any := tlsstore.Options{ClientAuth: tls.RequireAnyClientCert}
		optional := tlsstore.Options{ClientAuth: tls.RequestClientCert}
		both := tlsstore.Options{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.PEM + other.PEM}
		steps := []tlsstore.Options{{}, clientAuth(ca), both, any, optional, clientAuth(ca), {}}

		client := newSessions(version, ca.client(t))
		for i, step := range steps {
			options(step)
			// The cache holds a session of the step before.
			if client.resumes(t, address) {
				t.Errorf("step %d resumed a session of the step before", i)
			}
			if !client.resumes(t, address) {
				t.Errorf("step %d did not resume its own session", i)
			}
		}
		// Without a certificate, a session from before does not let anyone in.
		bare := newSessions(version)
		options(tlsstore.Options{})
		bare.resumes(t, address)
		options(clientAuth(ca))
		if _, err := dial(t, address, bare.config()); err == nil {
			t.Error("a session without a client certificate opened a host that needs one")
		}
	})
}

func TestTicketsOfTwoStores(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version uint16) {
		first, second := newStore(t, tlsstore.Config{}), newStore(t, tlsstore.Config{})
		here, there := serve(t, first), serve(t, second)
		client := newSessions(version)
		client.resumes(t, here)
		if client.resumes(t, there) {
			t.Fatal("stores with their own keys accept each other's tickets")
		}
		old, fresh := privateKey('o'), privateKey('n')
		must.Do(t, first.SetTicketKeys([]secret.Text{old}))
		must.Do(t, second.SetTicketKeys([]secret.Text{fresh, old}))
		client.resumes(t, here)
		if !client.resumes(t, there) {
			t.Error("the second store does not accept the first one's ticket")
		}
		// The ticket is now one of the fresh key, which the first has not yet.
		if client.resumes(t, here) {
			t.Error("the first store accepts a ticket of a key it does not have")
		}
		must.Do(t, first.SetTicketKeys([]secret.Text{fresh, old}))
		if !client.resumes(t, here) {
			t.Error("a ticket does not survive the rotation")
		}
		must.Do(t, first.SetTicketKeys([]secret.Text{privateKey('z')}))
		if client.resumes(t, here) {
			t.Error("a ticket of a withdrawn key is accepted")
		}
	})
}

func TestBadTicketKeys(t *testing.T) {
	t.Parallel()
	store := newStore(t, tlsstore.Config{})
	address := serve(t, store)
	client := newSessions(tls.VersionTLS13)
	client.resumes(t, address)
	for name, keys := range map[string][]secret.Text{
		"none":  nil,
		"many":  make([]secret.Text, 17),
		"empty": {{}},
		"short": {secret.New("short")},
		"long":  {secret.New(strings.Repeat("x", 33))},
		"zeros": {secret.New(strings.Repeat("\x00", 32))},
		"mixed": {privateKey('a'), secret.New("short")},
	} {
		if err := store.SetTicketKeys(keys); err == nil {
			t.Errorf("%s: accepted", name)
		} else if strings.Contains(err.Error(), "xxx") {
			t.Errorf("%s: the error shows the key: %v", name, err)
		}
	}
	if !client.resumes(t, address) {
		t.Error("bad keys replaced the good ones")
	}
}

// TestTicketRotation moves the clock: a ticket is good for at least two
// periods of 12 hours, and not after three.
func TestTicketRotation(t *testing.T) {
	t.Parallel()
	clock := newClock()
	store := newStore(t, tlsstore.Config{Now: clock.now})
	address := serve(t, store)
	ticket := func() *sessions {
		client := newSessions(tls.VersionTLS13)
		client.now = clock.now
		client.resumes(t, address)
		return client
	}
	// An entry of the cache is taken out when it is used, so each look at a
	// ticket needs its own client.
	early, middle, late, idle := ticket(), ticket(), ticket(), ticket()
	if !early.resumes(t, address) {
		t.Error("a fresh ticket is not accepted")
	}
	clock.advance(13 * time.Hour)
	if !middle.resumes(t, address) {
		t.Error("a ticket is not accepted after one rotation")
	}
	clock.advance(12 * time.Hour)
	if !late.resumes(t, address) {
		t.Error("a ticket is not accepted after two rotations")
	}
	clock.advance(12 * time.Hour)
	if idle.resumes(t, address) {
		t.Error("a ticket is accepted after three rotations")
	}

	// No client connects for two days: the old keys are not used again.
	stale := ticket()
	clock.advance(48 * time.Hour)
	if stale.resumes(t, address) {
		t.Error("a ticket is accepted two days later")
	}

	// Given keys do not rotate.
	must.Do(t, store.SetTicketKeys([]secret.Text{privateKey('g')}))
	given := ticket()
	clock.advance(48 * time.Hour)
	if !given.resumes(t, address) {
		t.Error("a ticket of a given key is not accepted two days later")
	}
}

func privateKey(c byte) secret.Text {
	return secret.New(strings.Repeat(string(rune(c)), 32))
}
