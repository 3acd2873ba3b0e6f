package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/pkitest"
)

// TestRuntimeAuthorities: a runtime whose certificate comes from a private authority is
// reached with that authority in the file, and with no other; a file that changes
// counts from then on, and one that is no good does not.
func TestRuntimeAuthorities(t *testing.T) {
	issuer, other := pkitest.NewAuthority(t), pkitest.NewAuthority(t)
	runtime := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	runtime.TLS = &tls.Config{Certificates: []tls.Certificate{issuer.Issue(t, "localhost").TLS(t)}, MinVersion: tls.VersionTLS12}
	runtime.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	runtime.StartTLS()
	t.Cleanup(runtime.Close)
	at, err := url.Parse(strings.Replace(runtime.URL, "127.0.0.1", "localhost", 1))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(through *direct) error {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at.String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := through.RoundTrip(request)
		if err != nil {
			return err
		}
		defer func() { _ = answer.Body.Close() }()
		if answer.StatusCode != http.StatusTeapot {
			t.Errorf("somebody else answers: %s", answer.Status)
		}
		return nil
	}
	unknown := x509.UnknownAuthorityError{}

	withoutAny := newDirect(nil, nil)
	t.Cleanup(withoutAny.CloseIdleConnections)
	if err := ask(withoutAny); !errors.As(err, &unknown) {
		t.Errorf("with the system CAs: %v", err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(other.PEM)
	bundle, err := LoadCABundle(file, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	through := newDirect(nil, bundle)
	t.Cleanup(through.CloseIdleConnections)
	if err := ask(through); !errors.As(err, &unknown) {
		t.Errorf("with another authority: %v", err)
	}
	lookAgain := func() {
		bundle.mu.Lock()
		bundle.checked = time.Time{}
		bundle.mu.Unlock()
	}
	write(other.PEM + issuer.PEM)
	lookAgain()
	if err := ask(through); err != nil {
		t.Errorf("with the authority: %v", err)
	}
	write("nothing of use")
	lookAgain()
	if err := ask(through); err != nil {
		t.Errorf("a file that is no good took the authority away: %v", err)
	}
}

// TestCABundleAtStart: an unusable file is reported with its name.
func TestCABundleAtStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.pem")
	if _, err := LoadCABundle(file, nil); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "CA bundle of runtimes") {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := os.WriteFile(file, []byte("nothing of use"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadCABundle(file, nil); err == nil || !strings.Contains(err.Error(), "contains no PEM certificate") || !strings.Contains(err.Error(), file) {
		t.Errorf("a file without a certificate: %v", err)
	}
}
