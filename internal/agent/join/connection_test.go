package join_test

import (
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/slipway/internal/agent/join"
	"slipway.dev/slipway/internal/must"
)

// TestPlatformComesBack: the agent retries a platform that is away until it responds,
// and notices its return.
func TestPlatformComesBack(t *testing.T) {
	w := newWorld(t)
	w.platform.change(func(p *platform) { p.cut = func(string) (bool, bool) { return true, false } })
	r := w.start(t, true)
	r.awaitPhase(t, join.Away)
	w.platform.change(func(p *platform) { p.cut = func(string) (bool, bool) { return false, false } })
	r.awaitPhase(t, join.Joined)
	w.platform.change(func(p *platform) { p.cut = func(string) (bool, bool) { return true, false } })
	r.awaitPhase(t, join.Away)
	if _, err := r.AccessToken(t.Context()); err != nil {
		t.Errorf("the token is gone although the platform is only away: %v", err)
	}
	w.platform.change(func(p *platform) { p.cut = func(string) (bool, bool) { return false, false } })
	r.awaitPhase(t, join.Joined)
}

// connectProxy is an HTTP proxy that makes connections and nothing else.
func connectProxy(t *testing.T) (address *url.URL, used *atomic.Int32) {
	t.Helper()
	used = &atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			http.Error(w, "only CONNECT", http.StatusMethodNotAllowed)
			return
		}
		used.Add(1)
		to, err := net.Dial("tcp", r.Host)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		from, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			_ = to.Close()
			return
		}
		// Only now: what the client sends after the response belongs to the other side,
		// and the server reads ahead until it has given the connection away.
		_, _ = io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n")
		go func() {
			_, _ = io.Copy(to, from)
			_ = to.Close()
		}()
		_, _ = io.Copy(from, to)
		_ = from.Close()
	}))
	t.Cleanup(server.Close)
	address = must.Get(url.Parse(server.URL))(t)
	return address, used
}

// TestProxyAndAuthority: R80, R122: through an HTTP proxy, to a platform whose
// certificate only our own authority knows. Without the authority it is refused.
func TestProxyAndAuthority(t *testing.T) {
	w := newWorld(t)
	w.platform = newPlatform(t, httptest.NewTLSServer)
	proxy, used := connectProxy(t)
	through := func(o *join.Options) { o.Proxy = http.ProxyURL(proxy) }
	r := w.start(t, true, through)
	if status := r.awaitPhase(t, join.Away); !strings.Contains(status.Message, "certificate") {
		t.Errorf("it says %q", status.Message)
	}
	r.stop()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.platform.server.Certificate().Raw})
	r = w.start(t, true, through, func(o *join.Options) { o.CAs = authority })
	r.awaitPhase(t, join.Joined)
	if used.Load() == 0 {
		t.Error("the proxy was not used")
	}
	r.stop()
	w.platform.server.CloseClientConnections()
}

// TestClocksDiffer: tokens are renewed at half of their life, whatever the clock of
// the agent shows.
func TestClocksDiffer(t *testing.T) {
	for _, skew := range []time.Duration{-2 * time.Hour, 2 * time.Hour} {
		t.Run(skew.String(), func(t *testing.T) {
			w := newWorld(t)
			w.platform.change(func(p *platform) { p.skew, p.life = skew, 6*time.Second })
			began := time.Now()
			r := w.start(t, true)
			r.awaitPhase(t, join.Joined)
			w.platform.await(t, func(p *platform) string {
				if p.renewals < 2 {
					return fmt.Sprintf("%d renewals", p.renewals)
				}
				return ""
			})
			// Two halves, each shortened by a tenth of the life at most, and by the
			// second that the platform's header does not show.
			if took := time.Since(began); took < 3*time.Second {
				t.Errorf("two renewals within %v", took)
			}
			if status := r.Status(); status.Phase != join.Joined {
				t.Errorf("it is %s: %s", status.Phase, status.Message)
			}
			if !strings.Contains(w.log.String(), "clocks") {
				t.Error("nobody was told that the clocks differ")
			}
		})
	}
}

// TestOptions: R33, R43: options that cannot work are refused before any request.
func TestOptions(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct {
		name   string
		change func(*join.Options)
		says   string
	}{
		{"name", func(o *join.Options) { o.Runtime = "Prod" }, "lower-case"},
		{"long name", func(o *join.Options) { o.Runtime = strings.Repeat("a", 39) }, "at most 38"},
		{"plain", func(o *join.Options) { o.PlatformURL = "http://platform.example.com" }, "not encrypted"},
		{"no address", func(o *join.Options) { o.PlatformURL = "platform" }, "cannot be read"},
		{"password", func(o *join.Options) { o.PlatformURL = "https://me:CANARY@platform.example.com" }, "leave them out"},
		{"authority", func(o *join.Options) { o.CAs = []byte("none") }, "no certificate"},
		{"reserved Secret", func(o *join.Options) {
			o.Key = join.KeySecret(o.Cluster, o.Namespace, join.SecretName, "token")
		}, "keep the API key in another"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			options := w.options()
			tt.change(&options)
			_, err := join.New(options)
			if err == nil || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "CANARY") {
				t.Errorf("the error is %v", err)
			}
		})
	}
	options := w.options()
	options.PlatformURL, options.AllowPlainHTTP = "http://platform.example.com", true
	if _, err := join.New(options); err != nil {
		t.Errorf("plain HTTP was allowed, and the error is %v", err)
	}
}

// TestPauses: they grow, are bounded, and no two agents wait the same time.
func TestPauses(t *testing.T) {
	different := map[time.Duration]bool{}
	for range 50 {
		all := join.Pauses(time.Second, 20*time.Second, 10)
		for i, pause := range all {
			whole := min(time.Second<<i, 20*time.Second)
			if pause < whole/2 || pause > whole {
				t.Fatalf("pause %d is %v and not between %v and %v", i, pause, whole/2, whole)
			}
		}
		different[all[9]] = true
	}
	if len(different) < 40 {
		t.Errorf("%d of 50 agents wait the same time", 50-len(different))
	}
}
