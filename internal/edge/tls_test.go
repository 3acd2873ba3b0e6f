package edge_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"slipway.dev/slipway/internal/edge"
	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

// secure is an entry point that takes TLS.
func secure(name string) edge.EntryPoint {
	point := edge.DefaultEntryPoint(name, "127.0.0.1:0")
	point.TLS = true
	return point
}

// certificate is one of the table for hosts.
func certificate(t *testing.T, a *pkitest.Authority, name string, hosts ...string) *route.Certificate {
	t.Helper()
	pair := a.Issue(t, hosts...)
	return &route.Certificate{ID: route.CertificateID{Name: name}, Hosts: hosts, Chain: pair.Chain, Key: route.NewSecret(pair.Key)}
}

// browser asks an address for hosts as a browser does, over TLS.
type browser struct {
	*http.Client
	t *testing.T
}

// newBrowser speaks HTTP/1.1, or HTTP/2 alone.
func newBrowser(t *testing.T, address string, config *tls.Config, http2 bool) *browser {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: config, Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(!http2)
	transport.Protocols.SetHTTP2(http2)
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, address)
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &browser{Client: &http.Client{
		Transport: transport, Timeout: 20 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, t: t}
}

// get returns the response, its body, and the error of a request that got none.
func (b *browser) get(url, host string) (*http.Response, string, error) {
	b.t.Helper()
	request := must.Get(http.NewRequestWithContext(b.t.Context(), http.MethodGet, url, nil))(b.t)
	request.Host = host
	response, err := b.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response, string(body), err
}

// TestTLSProtocols: HTTP/1.1 and HTTP/2 over TLS reach the same rule, with the
// certificate of the host and the headers of an encrypted request.
func TestTLSProtocols(t *testing.T) {
	authority := pkitest.NewAuthority(t)
	table := tableFor(edgetest.Backend(t, edgetest.Echo))
	table.Certificates = []*route.Certificate{
		certificate(t, authority, "a", "a.example"),
		certificate(t, authority, "b", "*.b.example"),
	}
	s := startAt(t, table, secure("websecure"))
	for _, http2 := range []bool{false, true} {
		for _, host := range []string{"a.example", "x.b.example"} {
			t.Run(fmt.Sprintf("%s/%v", host, http2), func(t *testing.T) {
				client := newBrowser(t, s.address, &tls.Config{RootCAs: authority.Pool}, http2)
				response, body, err := client.get("https://"+host+"/path?q=1", host)
				must.Do(t, err)
				if response.StatusCode != 200 || (response.ProtoMajor == 2) != http2 {
					t.Errorf("got %s %d", response.Proto, response.StatusCode)
				}
				for _, want := range []string{"GET /path?q=1 ", "X-Forwarded-Proto: https", "X-Forwarded-Host: " + host} {
					if !strings.Contains(body, want) {
						t.Errorf("the backend got no %q:\n%s", want, body)
					}
				}
			})
		}
	}
}

// TestHTTP3: the edge advertises HTTP/3, and the same rules serve it,
// options included.
func TestHTTP3(t *testing.T) {
	servers, clients := pkitest.NewAuthority(t), pkitest.NewAuthority(t)
	table := tableFor(edgetest.Backend(t, edgetest.Echo))
	table.Certificates = []*route.Certificate{certificate(t, servers, "a", "a.example"), certificate(t, servers, "b", "closed.example")}
	table.Authorities = []*route.Authority{{ID: route.AuthorityID{Name: "staff"}, Bundle: clients.PEM}}
	table.TLSOptions = []*route.TLSOptions{{ID: route.TLSOptionsID{Name: "staff"}, Hosts: []string{"closed.example"},
		ClientAuth: route.ClientAuthVerify, ClientAuthorities: []route.AuthorityID{{Name: "staff"}}}}
	point := secure("websecure")
	point.HTTP3, point.AdvertisedPort = true, 443
	s := startAt(t, table, point)
	response, _, err := newBrowser(t, s.address, &tls.Config{RootCAs: servers.Pool}, true).get("https://a.example/", "")
	if err != nil || response.Header.Get("Alt-Svc") != `h3=":443"; ma=86400` {
		t.Fatalf("%v %v", response, err)
	}
	transport := &http3.Transport{
		TLSClientConfig: &tls.Config{RootCAs: servers.Pool},
		Dial: func(ctx context.Context, _ string, tlsConfig *tls.Config, config *quic.Config) (*quic.Conn, error) {
			return quic.DialAddr(ctx, s.address, tlsConfig, config)
		},
	}
	defer transport.Close()
	client := &browser{Client: &http.Client{Transport: transport, Timeout: 20 * time.Second}, t: t}
	response, body, err := client.get("https://a.example/path", "a.example")
	if err != nil || response.ProtoMajor != 3 || !strings.HasPrefix(body, "GET /path ") || !strings.Contains(body, "X-Forwarded-For: 127.0.0.1\n") {
		t.Errorf("%v %q %v", response, body, err)
	}
	if response, _, err := client.get("https://a.example/", "closed.example"); err != nil || response.StatusCode != 421 {
		t.Errorf("a host with options by another name: %v %v", response, err)
	}
	if response, _, err := client.get("https://closed.example/", ""); err == nil {
		t.Errorf("a stranger was answered: %v", response)
	}
}

// TestUnknownNames: a client that names no host of ours is shown the default
// certificate, or nothing where that is asked for.
func TestUnknownNames(t *testing.T) {
	authority := pkitest.NewAuthority(t)
	table := tableFor(edgetest.Backend(t, edgetest.Echo))
	fallback := certificate(t, authority, "default", "default.example")
	fallback.Hosts, fallback.Default = nil, true
	table.Certificates = []*route.Certificate{fallback, certificate(t, authority, "a", "a.example")}
	table.TLSOptions = []*route.TLSOptions{{ID: route.TLSOptionsID{Name: "strict"}, Hosts: []string{"strict.example"}, SNIStrict: true}}
	s := startAt(t, table, secure("websecure"))
	for name, want := range map[string]string{"": "default.example", "nobody.example": "default.example", "a.example": "a.example", "strict.example": ""} {
		conn, err := tls.Dial("tcp", s.address, &tls.Config{ServerName: name, InsecureSkipVerify: true})
		if want == "" {
			if err == nil {
				conn.Close()
				t.Errorf("%s: a handshake without a certificate of its own", name)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := conn.ConnectionState().PeerCertificates[0].Subject.CommonName; got != want {
			t.Errorf("%q is shown %s, want %s", name, got, want)
		}
		conn.Close()
	}
}

// TestClientCertificates: a host that asks for client certificates is never
// served without one, by no name, connection or protocol.
func TestClientCertificates(t *testing.T) {
	servers, clients := pkitest.NewAuthority(t), pkitest.NewAuthority(t)
	table := tableFor(edgetest.Backend(t, edgetest.Echo))
	table.Rules[0].Policies = []route.Policy{{ForwardCertificate: &route.ForwardCertificate{
		InfoHeader: "X-Client", Info: []route.CertificateInfo{route.InfoSubject},
	}}}
	table.Certificates = []*route.Certificate{
		certificate(t, servers, "open", "open.example"),
		certificate(t, servers, "closed", "closed.example"),
		certificate(t, servers, "broken", "broken.example"),
	}
	table.Authorities = []*route.Authority{{ID: route.AuthorityID{Name: "staff"}, Bundle: clients.PEM}}
	table.TLSOptions = []*route.TLSOptions{
		{ID: route.TLSOptionsID{Name: "staff"}, Hosts: []string{"closed.example"},
			ClientAuth: route.ClientAuthVerify, ClientAuthorities: []route.AuthorityID{{Name: "staff"}}},
		{ID: route.TLSOptionsID{Name: "broken"}, Hosts: []string{"broken.example"}, Refused: true},
	}
	plain := edge.DefaultEntryPoint("web", "127.0.0.1:0")
	s := startAt(t, table, plain, secure("websecure"))
	open, encrypted := s.Addresses()[0].String(), s.Addresses()[1].String()

	stranger := &tls.Config{RootCAs: servers.Pool}
	staff := &tls.Config{RootCAs: servers.Pool, Certificates: []tls.Certificate{clients.Issue(t, "alice").TLS(t)}}
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("http2=%v", http2), func(t *testing.T) {
			if _, _, err := newBrowser(t, encrypted, stranger, http2).get("https://closed.example/", ""); err == nil {
				t.Error("a stranger was answered")
			}
			_, body, err := newBrowser(t, encrypted, staff, http2).get("https://closed.example/", "")
			if err != nil || !strings.Contains(body, "X-Client: ") || !strings.Contains(body, "alice") {
				t.Errorf("staff: %v\n%s", err, body)
			}
			// The connection is made for a host that asks nothing, the request for
			// the one that does.
			for _, host := range []string{"closed.example", "CLOSED.example", "closed.example.", "closed.example:443"} {
				response, _, err := newBrowser(t, encrypted, stranger, http2).get("https://open.example/", host)
				if err != nil || response.StatusCode != 421 {
					t.Errorf("%s by another name: %v %v", host, response, err)
				}
			}
			response, _, err := newBrowser(t, encrypted, stranger, http2).get("https://broken.example/", "")
			if err != nil || response.StatusCode != 503 {
				t.Errorf("refused options: %v %v", response, err)
			}
		})
	}
	w := edgetest.Dial(t, open)
	w.Send("GET / HTTP/1.1\r\nHost: closed.example\r\n\r\n")
	if response, _ := w.Response("GET"); response.StatusCode != 421 {
		t.Errorf("plain: got %d, want 421", response.StatusCode)
	}
	w.Send("GET / HTTP/1.1\r\nHost: open.example\r\n\r\n")
	if response, _ := w.Response("GET"); response.StatusCode != 200 {
		t.Errorf("plain, open: got %d, want 200", response.StatusCode)
	}
}

// TestClientCertificatesRedirect: plain requests of a host that asks for client
// certificates are redirected where no policy before that sends them elsewhere. One that a
// trusted proxy decrypted is not served, because its client has shown no certificate.
func TestClientCertificatesRedirect(t *testing.T) {
	clients := pkitest.NewAuthority(t)
	redirect, limit := route.Policy{RedirectScheme: &route.RedirectScheme{Scheme: route.SchemeHTTPS}}, route.Policy{BodyLimit: &route.BodyLimit{MaxBytes: 1}}
	back := route.Policy{RedirectScheme: &route.RedirectScheme{Scheme: route.SchemeHTTP}}
	table := tableFor(edgetest.Backend(t, edgetest.Echo))
	table.Authorities = []*route.Authority{{ID: route.AuthorityID{Name: "staff"}, Bundle: clients.PEM}}
	table.TLSOptions = []*route.TLSOptions{{
		ID: route.TLSOptionsID{Name: "staff"}, Hosts: []string{"closed.example"},
		ClientAuth: route.ClientAuthVerify, ClientAuthorities: []route.AuthorityID{{Name: "staff"}},
	}}
	point := edge.DefaultEntryPoint("web", "127.0.0.1:0")
	point.ForwardTrusted = loopback
	s := startAt(t, table, point)
	for _, c := range []struct {
		policies []route.Policy
		header   string
		want     int
	}{
		{[]route.Policy{redirect, limit}, "", 307},
		{[]route.Policy{redirect}, "X-Forwarded-Proto: https\r\n", 421},
		{[]route.Policy{limit, redirect}, "", 307},
		{[]route.Policy{{ForwardCertificate: &route.ForwardCertificate{PEMHeader: "X-Cert"}}, redirect}, "", 421},
		{[]route.Policy{limit}, "", 421},
		{[]route.Policy{back}, "", 421},
		{nil, "", 421},
	} {
		changed := *table
		rule := *table.Rules[0]
		rule.Policies = c.policies
		changed.Rules = []*route.Rule{&rule}
		must.Do(t, s.Apply(&changed))
		w := edgetest.Dial(t, s.address)
		w.Send("GET / HTTP/1.1\r\nHost: closed.example\r\n" + c.header + "\r\n")
		if response, _ := w.Response("GET"); response.StatusCode != c.want {
			t.Errorf("%d policies, %q: got %d, want %d", len(c.policies), c.header, response.StatusCode, c.want)
		}
	}
}

// TestCertificateSwap: a new certificate is shown at the next handshake.
func TestCertificateSwap(t *testing.T) {
	authority := pkitest.NewAuthority(t)
	table := tableFor(edgetest.Backend(t, edgetest.Echo))
	table.Certificates = []*route.Certificate{certificate(t, authority, "a", "a.example")}
	s := startAt(t, table, secure("websecure"))
	shown := func() string {
		conn := must.Get(tls.Dial("tcp", s.address, &tls.Config{ServerName: "a.example", RootCAs: authority.Pool}))(t)
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	before := shown()
	renewed := *table
	renewed.Certificates = []*route.Certificate{certificate(t, authority, "a", "a.example")}
	must.Do(t, s.Apply(&renewed))
	if after := shown(); after == before {
		t.Error("the old certificate is still shown")
	}
}

// TestPlainOnTLS: a plain request to a TLS port gets a response that names https.
func TestPlainOnTLS(t *testing.T) {
	s := startAt(t, tableFor(edgetest.Backend(t, edgetest.Echo)), secure("websecure"))
	w := edgetest.Dial(t, s.address)
	w.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if response, body := w.Response("GET"); response.StatusCode != 400 || !strings.Contains(body, "https://") {
		t.Errorf("got %d %q", response.StatusCode, body)
	}
	w.RequireClosed()
}

// TestRedirection: an entry point sends plain requests to the encrypted one,
// and those that a trusted proxy decrypted are where they should be.
func TestRedirection(t *testing.T) {
	point := edge.DefaultEntryPoint("web", "127.0.0.1:0")
	point.Redirect = &edge.Redirect{Scheme: route.SchemeHTTPS, Port: 443, Permanent: true, Priority: 1 << 30}
	point.ForwardTrusted = loopback
	s := startAt(t, tableFor(edgetest.Backend(t, edgetest.Echo)), point, secure("websecure"))
	w := edgetest.Dial(t, s.address)
	w.Send("GET /a%20b?c=d HTTP/1.1\r\nHost: a.example:8080\r\n\r\n")
	if response, _ := w.Response("GET"); response.StatusCode != 308 || response.Header.Get("Location") != "https://a.example/a%20b?c=d" {
		t.Errorf("got %d %s", response.StatusCode, response.Header.Get("Location"))
	}
	w.Send("GET / HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-Proto: https\r\n\r\n")
	if response, _ := w.Response("GET"); response.StatusCode != 200 {
		t.Errorf("decrypted by a trusted proxy: got %d", response.StatusCode)
	}
}
