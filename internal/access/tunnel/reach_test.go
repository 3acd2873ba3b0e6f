package tunnel_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"slipway.dev/slipway/internal/access/tunnel"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire"
)

// roots trusts the certificate of a test server.
func roots(p *platform) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(p.Certificate())
	return &tls.Config{RootCAs: pool}
}

// connectProxy is an HTTP proxy that wants a password and opens tunnels to one
// target, whatever name they ask for.
func connectProxy(t testing.TB, target string, secure bool) (proxy *url.URL, asked func() []string) {
	t.Helper()
	var mu sync.Mutex
	var names []string
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte("user:password"))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Header.Get("Proxy-Authorization") != want {
			http.Error(w, "only CONNECT with a password", http.StatusProxyAuthRequired)
			return
		}
		mu.Lock()
		names = append(names, r.Host)
		mu.Unlock()
		far, err := net.Dial("tcp", target)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		near, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			_ = far.Close()
			return
		}
		_, _ = io.WriteString(near, "HTTP/1.1 200 OK\r\n\r\n")
		go func() {
			_, _ = io.Copy(far, near)
			_ = far.Close()
		}()
		_, _ = io.Copy(near, far)
		_ = near.Close()
	}))
	if secure {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	proxy, _ = url.Parse(server.URL)
	proxy.User = url.UserPassword("user", "password")
	return proxy, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return names
	}
}

// R122: a proxy that is named, with TLS or without, leads to the platform, with
// CONNECT and a password; the platform's certificate is checked against the
// platform's name.
func TestProxy(t *testing.T) {
	for _, secure := range []bool{false, true} {
		p := serve(t, &tls.Config{})
		proxy, asked := connectProxy(t, p.Listener.Addr().String(), secure)
		stop := run(t, tunnel.Options{URLs: to("https://example.com"), TLS: roots(p), Proxy: http.ProxyURL(proxy)})
		programs.Until(t, "the agent is connected", func() bool { return p.Connected("a") })
		if names := asked(); len(names) == 0 || names[0] != "example.com:443" {
			t.Errorf("the proxy was asked for %v", names)
		}
		stop()
	}
}

// environmentURL makes the test binary an agent that takes its proxy from the
// environment: net/http reads that once in a process.
const environmentURL = "SLIPWAY_TEST_TUNNEL_URL"

// R122: without a proxy that is named, the environment's is used.
func TestProxyFromEnvironment(t *testing.T) {
	if target := os.Getenv(environmentURL); target != "" {
		agentOfEnvironment(t, target)
		return
	}
	p := serve(t, &tls.Config{})
	proxy, asked := connectProxy(t, p.Listener.Addr().String(), false)
	file := t.TempDir() + "/ca.pem"
	must.Do(t, os.WriteFile(file, encodeCertificate(p.Certificate()), 0o600))
	var said bytes.Buffer
	agent := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProxyFromEnvironment$")
	agent.Env = append(os.Environ(), environmentURL+"=https://example.com", "SSL_CERT_FILE="+file, "HTTPS_PROXY="+proxy.String())
	agent.Stdout, agent.Stderr = &said, &said
	if err := agent.Run(); err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	if names := asked(); len(names) == 0 || names[0] != "example.com:443" {
		t.Errorf("the proxy was asked for %v", names)
	}
}

// agentOfEnvironment connects and ends.
func agentOfEnvironment(t *testing.T, target string) {
	connected := make(chan struct{})
	stop := run(t, tunnel.Options{URLs: to(target), State: func(n int) {
		if n == 2 {
			close(connected)
		}
	}})
	<-connected
	stop()
}

// Other servers than the platform get no usable token, and the log has what is
// wrong without it.
func TestUnreachable(t *testing.T) {
	secure := serve(t, &tls.Config{})
	old := serve(t, &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10})
	var leaked atomic.Bool
	otherReplicas := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		leaked.Store(r.Header.Get("Authorization") != "")
	}))
	t.Cleanup(otherReplicas.Close)
	redirecting := httptest.NewServer(http.RedirectHandler(otherReplicas.URL+wire.TunnelPath, http.StatusTemporaryRedirect))
	t.Cleanup(redirecting.Close)
	for _, tt := range []struct {
		name    string
		options tunnel.Options
		want    string // in the log
	}{
		{"unknown certificate", tunnel.Options{URLs: to(secure.URL), TLS: &tls.Config{RootCAs: x509.NewCertPool()}}, "certificate signed by unknown authority"},
		{"another name", tunnel.Options{URLs: to(strings.Replace(secure.URL, "127.0.0.1", "localhost", 1)), TLS: roots(secure)}, "not localhost"},
		{"old TLS", tunnel.Options{URLs: to(old.URL), TLS: roots(old)}, "protocol version"},
		{"redirect", tunnel.Options{URLs: to(redirecting.URL)}, "307 Temporary Redirect"},
		{"no address", tunnel.Options{URLs: func() []string { return nil }}, "has not announced a tunnel address"},
		{"no URL", tunnel.Options{URLs: to("ftp://example.com")}, "use https"},
		{"another runtime's name", tunnel.Options{URLs: to(secure.URL), TLS: roots(secure), Runtime: "other"}, "that of runtime"},
		{"no token", tunnel.Options{URLs: to(secure.URL), TLS: roots(secure), Token: func(context.Context) (string, error) {
			return "", errors.New("none is left")
		}}, "none is left"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log := &programs.Output{}
			tt.options.Log = slog.New(slog.NewTextHandler(log, nil))
			stop := run(t, tt.options)
			programs.Until(t, "the log says "+tt.want, func() bool { return strings.Contains(log.String(), tt.want) })
			stop()
			if strings.Contains(log.String(), canary) {
				t.Errorf("the token is in the log: %s", log)
			}
		})
	}
	if leaked.Load() {
		t.Error("the token went where a redirect led")
	}
	if secure.Connected("a") || old.Connected("a") {
		t.Error("an agent is connected")
	}
}

// Options that lack something are refused before anything is tried.
func TestOptions(t *testing.T) {
	whole := tunnel.Options{URLs: to("https://example.com"), Handler: http.NotFoundHandler(),
		Token: func(context.Context) (string, error) { return canary, nil }}
	for name, spoil := range map[string]func(*tunnel.Options){
		"URLs":        func(o *tunnel.Options) { o.URLs = nil },
		"Token":       func(o *tunnel.Options) { o.Token = nil },
		"Handler":     func(o *tunnel.Options) { o.Handler = nil },
		"Connections": func(o *tunnel.Options) { o.Connections = -1 },
	} {
		options := whole
		spoil(&options)
		if err := tunnel.Run(t.Context(), options); err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// encodeCertificate is a certificate as files have it.
func encodeCertificate(certificate *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
}
