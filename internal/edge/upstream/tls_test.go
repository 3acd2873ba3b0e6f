package upstream_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/route"
)

// serving is the configuration of a server with a certificate.
func serving(t testing.TB, pair pkitest.Pair) *tls.Config {
	t.Helper()
	return &tls.Config{Certificates: []tls.Certificate{pair.TLS(t)}}
}

// securePod is a pod behind TLS.
func securePod(t testing.TB, config *tls.Config) *pod {
	t.Helper()
	return runPod(t, tls.NewListener(listen(t, "127.0.0.1:0"), config))
}

var (
	authorityID   = route.AuthorityID{Namespace: "shop", Name: "ca"}
	certificateID = route.CertificateID{Namespace: "shop", Name: "edge"}
)

// secured is a table with one endpoint that is reached over TLS.
func secured(address string, settings *route.UpstreamTLS, bundle string, pair *pkitest.Pair) *route.Table {
	b := cart(address)
	b.Transport = route.Transport{Protocol: route.ProtocolTLS, TLS: settings}
	table := &route.Table{Backends: []*route.Backend{b}}
	if bundle != "" {
		table.Authorities = []*route.Authority{{ID: authorityID, Bundle: bundle}}
	}
	if pair != nil {
		table.Certificates = []*route.Certificate{{ID: certificateID, Chain: pair.Chain, Key: route.NewSecret(pair.Key)}}
	}
	return table
}

func TestTLS(t *testing.T) {
	trusted, other := pkitest.NewAuthority(t), pkitest.NewAuthority(t)
	named := trusted.Issue(t, "cart.shop.svc")
	edge := trusted.Issue(t)
	asking := serving(t, named)
	asking.ClientAuth = tls.RequireAndVerifyClientCert
	asking.ClientCAs = trusted.Pool
	mail := serving(t, named)
	mail.NextProtos = []string{"imap"}

	const name = "cart.shop.svc"
	verify := func() *route.UpstreamTLS { return &route.UpstreamTLS{ServerName: name, Authority: authorityID} }
	with := func(change func(*route.UpstreamTLS)) *route.UpstreamTLS {
		settings := verify()
		change(settings)
		return settings
	}
	show := with(func(s *route.UpstreamTLS) { s.Certificate = certificateID })
	for _, test := range []struct {
		name     string
		server   *tls.Config
		settings *route.UpstreamTLS
		bundle   string
		pair     *pkitest.Pair
		want     string // part of the error; empty when it works
	}{
		{name: "verified", server: serving(t, named), settings: verify(), bundle: trusted.PEM},
		{name: "bundleOfTwo", server: serving(t, named), settings: verify(), bundle: other.PEM + trusted.PEM},
		{name: "ipAddress", server: serving(t, trusted.Issue(t, "127.0.0.1")),
			settings: &route.UpstreamTLS{Authority: authorityID}, bundle: trusted.PEM},
		{name: "altName", server: serving(t, named), bundle: trusted.PEM,
			settings: &route.UpstreamTLS{ServerName: "sni.example", Authority: authorityID, SubjectAltNames: "other.svc Cart.shop.svc"}},
		{name: "altURI", server: serving(t, trusted.Issue(t, "x.svc", "spiffe://shop/cart")), bundle: trusted.PEM,
			settings: &route.UpstreamTLS{ServerName: "sni.example", Authority: authorityID, SubjectAltNames: "spiffe://shop/cart"}},
		{name: "altNameOther", server: serving(t, named), bundle: trusted.PEM, want: "for none of other.svc spiffe://shop/cart",
			settings: &route.UpstreamTLS{ServerName: name, Authority: authorityID, SubjectAltNames: "other.svc spiffe://shop/cart"}},
		{name: "altNameWrongAuthority", server: serving(t, named), bundle: other.PEM, want: "unknown authority",
			settings: &route.UpstreamTLS{ServerName: name, Authority: authorityID, SubjectAltNames: name}},
		{name: "altNameExpired", server: serving(t, trusted.Sign(t, pkitest.Certificate{Names: []string{name}, From: time.Now().Add(-49 * time.Hour)})),
			settings: &route.UpstreamTLS{ServerName: name, Authority: authorityID, SubjectAltNames: name}, bundle: trusted.PEM, want: "has expired"},
		{name: "skipVerify", server: serving(t, named), settings: &route.UpstreamTLS{SkipVerify: true}},
		{name: "clientCertificate", server: asking, settings: show, bundle: trusted.PEM, pair: &edge},
		{name: "systemRoots", server: serving(t, named), settings: nil, want: "x509: "},
		{name: "wrongAuthority", server: serving(t, named), settings: verify(), bundle: other.PEM, want: "x509: certificate signed by unknown authority"},
		{name: "wrongName", server: serving(t, named), bundle: trusted.PEM, want: "is valid for cart.shop.svc, not pay.shop.svc",
			settings: with(func(s *route.UpstreamTLS) { s.ServerName = "pay.shop.svc" })},
		{name: "noNameForAnAddress", server: serving(t, named), bundle: trusted.PEM, want: "doesn't contain any IP SANs",
			settings: with(func(s *route.UpstreamTLS) { s.ServerName = "" })},
		{name: "expired", server: serving(t, trusted.Sign(t, pkitest.Certificate{Names: []string{name}, From: time.Now().Add(-49 * time.Hour)})),
			settings: verify(), bundle: trusted.PEM, want: "x509: certificate has expired"},
		{name: "otherProtocol", server: mail, settings: verify(), bundle: trusted.PEM, want: "no application protocol"},
		{name: "oldVersion", settings: verify(), bundle: trusted.PEM, want: "protocol version",
			server: &tls.Config{Certificates: serving(t, named).Certificates, MaxVersion: tls.VersionTLS11}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := securePod(t, test.server)
			w := newWorld(t, upstream.Config{})
			w.become(secured(p.address, test.settings, test.bundle, test.pair))
			lease := pick(t, w.Handle(shop), upstream.PickOptions{})
			defer lease.Done(upstream.OK)
			conn, err := lease.Connect(t.Context(), testTimeout, false)
			if test.want == "" {
				must.Do(t, err)
				get(t, conn)
				conn.Release()
				if again := connect(t, &lease); again != conn {
					t.Error("the connection was not used again")
				}
				return
			}
			var failure *upstream.ConnectError
			if !errors.As(err, &failure) || !failure.TLS || failure.Timeout() || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v\nwant a ConnectError of TLS with %q", err, test.want)
			}
		})
	}
}

// With TLS 1.3 the client learns with its first read what the server thinks of
// its certificate.
func TestClientCertificateIsRefused(t *testing.T) {
	trusted, other := pkitest.NewAuthority(t), pkitest.NewAuthority(t)
	stranger := other.Issue(t)
	asking := serving(t, trusted.Issue(t, "cart"))
	asking.ClientAuth = tls.RequireAndVerifyClientCert
	asking.ClientCAs = trusted.Pool
	for name, pair := range map[string]*pkitest.Pair{"none": nil, "strangers": &stranger} {
		t.Run(name, func(t *testing.T) {
			settings := &route.UpstreamTLS{ServerName: "cart", Authority: authorityID}
			if pair != nil {
				settings.Certificate = certificateID
			}
			w := newWorld(t, upstream.Config{})
			w.become(secured(securePod(t, asking).address, settings, trusted.PEM, pair))
			lease := pick(t, w.Handle(shop), upstream.PickOptions{})
			defer lease.Done(upstream.Reset)
			conn := connect(t, &lease)
			defer conn.Close()
			if _, err := io.ReadAll(conn.NetConn()); err == nil || !strings.Contains(err.Error(), "remote error: tls: ") {
				t.Errorf("error %v, want the server's alert", err)
			}
		})
	}
}

func TestServerNameIsSent(t *testing.T) {
	trusted := pkitest.NewAuthority(t)
	for _, test := range []struct{ name, host, serverName, want string }{
		{"given", "", "cart.shop.svc", "cart.shop.svc"},
		{"ofTheHost", "localhost", "", "localhost"},
		{"givenInsteadOfTheHost", "localhost", "cart.shop.svc", "cart.shop.svc"},
		{"noneForAnAddress", "", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			sent := make(chan string, 1)
			config := serving(t, trusted.Issue(t, "localhost", "cart.shop.svc", "127.0.0.1"))
			config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
				sent <- hello.ServerName
				if len(hello.SupportedProtos) != 1 || hello.SupportedProtos[0] != "http/1.1" {
					t.Errorf("the protocols %q are offered, want http/1.1 only", hello.SupportedProtos)
				}
				return nil, nil
			}
			p := securePod(t, config)
			table := secured(p.address, &route.UpstreamTLS{Authority: authorityID, ServerName: test.serverName}, trusted.PEM, nil)
			if test.host != "" {
				table.Backends[0].Endpoints[0] = route.Endpoint{Host: test.host, Port: netip.MustParseAddrPort(p.address).Port()}
			}
			w := newWorld(t, upstream.Config{LocalNames: true})
			w.become(table)
			roundTrip(t, w.Handle(shop))
			if got := programs.Receive(t, sent, "a handshake"); got != test.want {
				t.Errorf("SNI %q, want %q", got, test.want)
			}
		})
	}
}

func TestSessionsResume(t *testing.T) {
	trusted := pkitest.NewAuthority(t)
	resumed := make(chan bool, 1)
	config := serving(t, trusted.Issue(t, "cart"))
	config.VerifyConnection = func(state tls.ConnectionState) error {
		resumed <- state.DidResume
		return nil
	}
	// Two endpoints with one name and different keys for their tickets.
	a, b := securePod(t, config.Clone()), securePod(t, config.Clone())
	settings := &route.UpstreamTLS{Authority: authorityID, ServerName: "cart"}
	table := secured(a.address, settings, trusted.PEM, nil)
	table.Backends[0].Endpoints = append(table.Backends[0].Endpoints, cart(b.address).Endpoints...)
	table.Backends[0].Balancing.Method = route.BalanceRoundRobin
	w := newWorld(t, upstream.Config{})
	w.become(table)
	for i, want := range []bool{false, false, true, true} {
		lease := pick(t, w.Handle(shop), upstream.PickOptions{})
		conn := connect(t, &lease)
		get(t, conn)
		conn.Close()
		lease.Done(upstream.OK)
		if got := programs.Receive(t, resumed, "a handshake"); got != want {
			t.Errorf("connection %d resumed a session: %v, want %v", i, got, want)
		}
	}
}

// What vouches for a backend changed: nothing that was vouched for the old way
// may carry another request.
func TestTrustChanges(t *testing.T) {
	trusted, other := pkitest.NewAuthority(t), pkitest.NewAuthority(t)
	edge, renewed := trusted.Issue(t), trusted.Issue(t)
	config := serving(t, trusted.Issue(t, "cart"))
	config.ClientAuth = tls.RequestClientCert
	settings := &route.UpstreamTLS{Authority: authorityID, ServerName: "cart", Certificate: certificateID}
	for _, test := range []struct {
		name    string
		change  func(*route.Table)
		kept    bool   // the connection is used again
		refused string // why there is none
	}{
		{name: "authority", change: func(table *route.Table) {
			table.Authorities[0] = &route.Authority{ID: authorityID, Bundle: other.PEM}
		},
			refused: "x509: certificate signed by unknown authority"},
		{name: "authorityMore", change: func(table *route.Table) {
			table.Authorities[0] = &route.Authority{ID: authorityID, Bundle: trusted.PEM + other.PEM}
		}},
		{name: "authorityGone", change: func(table *route.Table) { table.Authorities = nil }, refused: "the table has no authority shop/ca"},
		{name: "certificateRenewed", change: func(table *route.Table) {
			table.Certificates[0] = &route.Certificate{ID: certificateID, Chain: renewed.Chain, Key: route.NewSecret(renewed.Key)}
		}},
		{name: "certificateGone", change: func(table *route.Table) { table.Certificates = nil }, refused: "the table has no certificate shop/edge"},
		{name: "certificateHosts", kept: true, change: func(table *route.Table) {
			c := *table.Certificates[0]
			c.Hosts = []string{"shop.example.com"}
			table.Certificates[0] = &c
		}},
		{name: "otherAuthority", kept: true, change: func(table *route.Table) {
			table.Authorities = append(table.Authorities, &route.Authority{ID: route.AuthorityID{Name: "other"}, Bundle: other.PEM})
		}},
		{name: "serverName", refused: "not pay", change: func(table *route.Table) {
			changed := *settings
			changed.ServerName = "pay"
			table.Backends[0] = secured(table.Backends[0].Endpoints[0].Address.String(), &changed, "", nil).Backends[0]
		}},
		{name: "noTLS", refused: "", change: func(table *route.Table) {
			table.Backends[0] = cart(table.Backends[0].Endpoints[0].Address.String())
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := securePod(t, config)
			w := newWorld(t, upstream.Config{})
			w.become(secured(p.address, settings, trusted.PEM, &edge))
			h := w.Handle(shop)
			running := pick(t, h, upstream.PickOptions{})
			used := connect(t, &running)
			idle := connect(t, &running)
			get(t, used)
			get(t, idle)
			idle.Release()

			next := secured(p.address, settings, trusted.PEM, &edge)
			test.change(next)
			w.become(next)
			used.Release()
			running.Done(upstream.OK)
			if got := w.state(t, p.address).Idle; got != map[bool]int{true: 2}[test.kept] {
				t.Errorf("%d idle connections are kept; kept should be %v", got, test.kept)
			}
			err := tryConnect(t, h)
			if test.refused == "" {
				must.Do(t, err)
			} else if err == nil || !strings.Contains(err.Error(), test.refused) {
				t.Errorf("error %v, want %q", err, test.refused)
			}

			// And back again.
			w.become(secured(p.address, settings, trusted.PEM, &edge))
			must.Do(t, tryConnect(t, h))
		})
	}
}

func tryConnect(t *testing.T, h *upstream.Handle) error {
	lease, err := h.Pick(upstream.PickOptions{})
	if err != nil {
		return err
	}
	defer lease.Done(upstream.Cancelled)
	conn, err := lease.Connect(t.Context(), testTimeout, false)
	if err == nil {
		conn.Close()
	}
	return err
}

// A second response that came along with the first is inside TLS already, where
// no look at the socket shows it.
func TestPollutionInsideTLS(t *testing.T) {
	trusted := pkitest.NewAuthority(t)
	config := serving(t, trusted.Issue(t, "cart"))
	for _, test := range []struct {
		name  string
		extra string
		kept  int
	}{{"polluted", "HTTP/1.1 200 OK\r\n", 0}, {"clean", "", 1}} {
		t.Run(test.name, func(t *testing.T) {
			address := script(t, func(raw net.Conn) {
				// Both records go out in one write, so that they arrive together.
				held := &holdingConn{Conn: raw}
				conn := tls.Server(held, config)
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
					return
				}
				held.hold = true
				_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\nPeer: x\r\n\r\n")
				_, _ = io.WriteString(conn, test.extra)
				held.flush()
				_, _ = io.Copy(io.Discard, conn)
			})
			w := newWorld(t, upstream.Config{})
			w.become(secured(address, &route.UpstreamTLS{Authority: authorityID, ServerName: "cart"}, trusted.PEM, nil))
			lease := pick(t, w.Handle(shop), upstream.PickOptions{})
			defer lease.Done(upstream.OK)
			conn := connect(t, &lease)
			get(t, conn)
			if n := len(conn.Reader.Unread()); n > 0 {
				t.Fatalf("the reader has seen %d more bytes; this test is about what it has not", n)
			}
			conn.Release()
			if got := w.state(t, address).Idle; got != test.kept {
				t.Errorf("%d idle connections, want %d", got, test.kept)
			}
		})
	}
}

// holdingConn collects what is written while it holds.
type holdingConn struct {
	net.Conn
	hold bool
	held []byte
}

func (c *holdingConn) Write(b []byte) (int, error) {
	if c.hold {
		c.held = append(c.held, b...)
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *holdingConn) flush() {
	_, _ = c.Conn.Write(c.held)
	c.hold = false
}
