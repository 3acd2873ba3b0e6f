package demo_test

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// A bad version fails exactly its share of the requests, and never a probe.
func TestBadVersion(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, image string
		env         []string
		failed      int // of 200
	}{
		{"image", "slipway.dev/demo:v-bad", nil, 10},
		{"container", "slipway.dev/demo:v-bad", []string{"ERRORS=2.5"}, 5},
		{"none", "slipway.dev/demo:v-bad", []string{"ERRORS=0"}, 0},
		{"another version", "slipway.dev/demo:v2", []string{"ERRORS=50"}, 100},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := start(t, tt.image, tt.env)
			client := newClient(t, false)
			failed := 0
			for range 200 {
				switch got := c.fetchWith(client, "GET", "/api"); {
				case got.StatusCode == http.StatusInternalServerError && strings.Contains(got.body, "% of its requests"):
					failed++
				case got.StatusCode != http.StatusOK:
					t.Fatalf("got %d: %s", got.StatusCode, got.body)
				}
				if got := c.fetchWith(client, "GET", "/readyz"); got.StatusCode != http.StatusOK {
					t.Fatalf("a probe got %d", got.StatusCode)
				}
			}
			if failed != tt.failed {
				t.Errorf("%d of 200 requests failed, want %d", failed, tt.failed)
			}
		})
	}
}

// A slow version delays requests, but no probe.
func TestSlowVersion(t *testing.T) {
	t.Parallel()
	c := start(t, "slipway.dev/demo:v-slow", []string{"DELAY=50ms"})
	client := newClient(t, false)
	c.fetchWith(client, "GET", "/healthz")
	began := time.Now()
	if got := c.fetchWith(client, "GET", "/api"); got.StatusCode != http.StatusOK || time.Since(began) < 50*time.Millisecond {
		t.Errorf("got %d after %s", got.StatusCode, time.Since(began))
	}
}

// A share or a delay that cannot be read is an error and not a good version.
func TestBadFault(t *testing.T) {
	t.Parallel()
	for _, env := range []string{"ERRORS=5%", "ERRORS=101", "ERRORS=-1", "ERRORS=NaN", "DELAY=3", "DELAY=-1s", "DELAY=2m"} {
		c := launch(t, "slipway.dev/demo:v1", []string{env})
		if code := c.exitCode(); code != 2 || !strings.Contains(c.stderr.String(), "want a") {
			t.Errorf("%s: exit code %d and %q", env, code, c.stderr.String())
		}
	}
}
