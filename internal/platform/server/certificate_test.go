package server

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/outbound"
)

// TestCertificateFiles: files that do not fit each other keep the certificate that
// was good, and are complained about once.
func TestCertificateFiles(t *testing.T) {
	authority := pkitest.NewAuthority(t)
	one, two := authority.Issue(t, "one.example.com"), authority.Issue(t, "two.example.com")
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
		var logged strings.Builder
		age := time.Now()
		write := func(name, text string) {
			t.Helper()
			age = age.Add(time.Second)
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(name, age, age); err != nil {
				t.Fatal(err)
			}
		}
		write(cert, one.Chain)
		write(key, one.Key)
		certificate, err := LoadCertificate(cert, key, slog.New(slog.NewTextHandler(&logged, nil)))
		if err != nil {
			t.Fatal(err)
		}
		expect := func(step, want string) {
			t.Helper()
			current, err := certificate.get(&tls.ClientHelloInfo{})
			if err != nil || current.Leaf.DNSNames[0] != want {
				t.Errorf("%s: %v, %v", step, current.Leaf.DNSNames, err)
			}
		}
		expect("first", "one.example.com")
		write(cert, two.Chain)
		<-time.After(reloadInterval - 1)
		expect("before it is looked again", "one.example.com")
		for range 3 {
			<-time.After(reloadInterval)
			expect("with half of the pair", "one.example.com")
		}
		write(key, two.Key)
		<-time.After(reloadInterval)
		expect("with the pair", "two.example.com")
		if err := os.Remove(key); err != nil {
			t.Fatal(err)
		}
		<-time.After(reloadInterval)
		expect("without a key", "two.example.com")
		if text := logged.String(); strings.Count(text, "certificate reload failed") != 2 || strings.Count(text, "certificate reloaded") != 1 {
			t.Errorf("logged:\n%s", text)
		}
	})
}

// TestDirectAddresses: an access URL does not lead to what only means something to
// this machine or its cloud, unless the platform is on this machine too or an operator
// allows it.
func TestDirectAddresses(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	for public, reaches := range map[string]bool{"slipway.example.com": false, "127.0.0.1": true, "localhost": true, "::1": true} {
		for _, allowed := range []bool{false, true} {
			policy := outbound.New()
			if allowed {
				policy = outbound.New(netip.MustParsePrefix("127.0.0.1/32"))
			}
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
			transport := directTransport(allowLocal(policy, public), nil)
			response, err := transport.RoundTrip(request)
			if (err == nil) != (reaches || allowed) {
				t.Errorf("%s, allowed %v: %v", public, allowed, err)
			}
			if err == nil {
				_ = response.Body.Close()
			}
			transport.CloseIdleConnections()
		}
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://169.254.169.254", nil)
		var refused *outbound.RefusedError
		if _, err := directTransport(allowLocal(outbound.New(), public), nil).RoundTrip(request); !errors.As(err, &refused) {
			t.Errorf("%s: the credentials of the machine: %v", public, err)
		}
	}
}

// TestProviderAddresses: an identity provider cannot send the platform to this
// machine, unless the operator configured it there.
func TestProviderAddresses(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	for issuer, reaches := range map[string]bool{"https://id.example.com/realm": false, "http://127.0.0.1:5556/dex": true} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		transport := providerTransport(outbound.New(), issuer)
		response, err := transport.RoundTrip(request)
		if (err == nil) != reaches {
			t.Errorf("%s: %v", issuer, err)
		}
		if err == nil {
			_ = response.Body.Close()
		}
		transport.(*http.Transport).CloseIdleConnections()
	}
}
