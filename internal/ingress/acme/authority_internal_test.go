package acme

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/must"
)

// TestCourier: responses are bounded, and the Retry-After of an authority
// is remembered.
func TestCourier(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		header string
		least  time.Duration // 0 is nothing said
		busy   bool
	}{
		{"seconds", 429, "120", 119 * time.Second, false},
		{"busy", 503, "60", 59 * time.Second, true},
		{"a date", 429, time.Now().Add(time.Hour).UTC().Format(http.TimeFormat), 59 * time.Minute, false},
		{"too far", 429, "999999999", 23*time.Hour + 59*time.Minute, false},
		{"nonsense", 429, "soon", 0, false},
		{"nothing", 503, "", 0, false},
		{"success", 200, "120", 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", c.header)
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, strings.Repeat("x", 2*maxResponse)) // the client may have left
			}))
			defer server.Close()
			carried := newTransport(nil)
			defer carried.base.CloseIdleConnections()
			response := must.Get((&http.Client{Transport: carried}).Get(server.URL))(t)
			body, err := io.ReadAll(response.Body)
			if err != nil || len(body) != maxResponse {
				t.Errorf("%d bytes, %v", len(body), err)
			}
			_ = response.Body.Close() // all of it is read
			at, busy := carried.retryAfter()
			if c.least == 0 && !at.IsZero() || c.least > 0 && (time.Until(at) < c.least || time.Until(at) > c.least+time.Minute) || busy != c.busy {
				t.Errorf("come back at %v, busy %v", at, busy)
			}
			carried.reset()
			if at, _ := carried.retryAfter(); !at.IsZero() {
				t.Error("it is remembered for the next order")
			}
		})
	}
}

// TestRenewalInfo: an authority that has advice is asked for it by the name of
// the certificate; one that has none gives errNoRenewalInfo.
func TestRenewalInfo(t *testing.T) {
	directory := map[string]string{"newNonce": "/nonce", "newAccount": "/account", "newOrder": "/order"}
	held := make(chan struct{})
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	defer server.Close()
	start := time.Now().Add(24 * time.Hour).Truncate(time.Second)
	answer := func(w http.ResponseWriter, value any) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(value); err != nil {
			t.Error(err)
		}
	}
	mux.HandleFunc("/dir", func(w http.ResponseWriter, _ *http.Request) { answer(w, directory) })
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) {
		close(held)
		<-r.Context().Done()
	})
	mux.HandleFunc("/better", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]string{"newNonce": "/nonce", "newAccount": "/account", "newOrder": "/order", "renewalInfo": server.URL + "/info"})
	})
	mux.HandleFunc("/info/", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"suggestedWindow": map[string]time.Time{"start": start, "end": start.Add(time.Hour)}})
	})
	at := func(path string) *authority {
		a := newAuthority(New(nil, Options{}), "le", Resolver{Directory: server.URL + path})
		t.Cleanup(a.close)
		return a
	}
	leaf := leafOfChain(t, given(t, "a.example"))
	if _, err := at("/dir").renewalInfo(t.Context(), leaf); !errors.Is(err, errNoRenewalInfo) {
		t.Errorf("without advice: %v", err)
	}
	// One that does not respond holds up no caller.
	slow, end := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := at("/slow").renewalInfo(slow, leaf)
		ended <- err
	}()
	<-held
	when, err := at("/better").renewalInfo(t.Context(), leaf)
	if err != nil || when.Before(start) || when.After(start.Add(time.Hour)) {
		t.Errorf("advice: %v, %v", when, err)
	}
	end()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the slow one: %v", err)
	}
}

func TestPreferredChain(t *testing.T) {
	fresh := given(t, "root.example")
	if got := rootOf(fresh.chain); got != "root.example" {
		t.Errorf("the root is %q", got)
	}
	if got := rootOf([]byte("nothing")); got != "" {
		t.Errorf("the root of nothing is %q", got)
	}
}

func TestKeyTypes(t *testing.T) {
	for kind, want := range map[string]string{
		"": "*ecdsa.PrivateKey", "EC256": "*ecdsa.PrivateKey", "EC384": "*ecdsa.PrivateKey", "RSA2048": "*rsa.PrivateKey",
	} {
		key, err := newKey(kind)
		if got := fmt.Sprintf("%T", key); err != nil || got != want {
			t.Errorf("%s: %s, %v", kind, got, err)
		}
	}
	if _, err := newKey("DSA"); err == nil {
		t.Error("DSA is a kind of key")
	}
}
