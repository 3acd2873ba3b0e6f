package server

import (
	"crypto/tls"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway.dev/slipway/internal/edge/pkitest"
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

// TestRefuseLocalNetwork: an access URL does not lead to what only means something
// to this machine or its cloud.
func TestRefuseLocalNetwork(t *testing.T) {
	type verdict struct{ public, local bool } // refused by a platform that others reach, and by one of this machine
	for address, want := range map[string]verdict{
		"169.254.169.254:80": {true, true}, "[fe80::1]:80": {true, true}, "0.0.0.0:80": {true, true}, "[::]:443": {true, true},
		"224.0.0.1:80": {true, true}, "[ff02::1]:80": {true, true}, "[::ffff:169.254.169.254]:80": {true, true},
		"nonsense": {true, true}, "host:80": {true, true},
		"127.0.0.1:8092": {true, false}, "127.9.9.9:80": {true, false}, "[::1]:80": {true, false}, "[::ffff:127.0.0.1]:80": {true, false},
		"10.0.0.7:443": {}, "192.0.2.1:80": {}, "[2001:db8::1]:443": {},
	} {
		got := verdict{refuseLocalNetwork(address, false) != nil, refuseLocalNetwork(address, true) != nil}
		if got != want {
			t.Errorf("%s: got %v, want %v", address, got, want)
		}
	}
	// What the transport does with it.
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	for public, reaches := range map[string]bool{"https://slipway.example.com": false, "http://127.0.0.1:8086": true, "http://localhost:8086": true, "http://[::1]:8086": true} {
		at, err := url.Parse(public)
		if err != nil {
			t.Fatal(err)
		}
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		transport := directTransport(at, nil)
		response, err := transport.RoundTrip(request)
		if (err == nil) != reaches {
			t.Errorf("%s: %v", public, err)
		}
		if err == nil {
			_ = response.Body.Close()
		}
		transport.CloseIdleConnections()
	}
}
