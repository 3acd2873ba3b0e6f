package controller

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge"
	"slipway.dev/slipway/internal/must"
)

func TestSharedSecret(t *testing.T) {
	for _, test := range []struct{ name, content, problem string }{
		{"enough", strings.Repeat("s", 32) + "\n", ""},
		{"the largest file", strings.Repeat("s", 4<<10), ""},
		{"too large", strings.Repeat("s", 4<<10+1), "has more than 4096 bytes"},
		{"too short", "short\n", "has fewer than 32 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "secret")
			must.Do(t, os.WriteFile(path, []byte(test.content), 0o600))
			shared, err := sharedSecret(path)
			if test.problem == "" {
				if want := strings.TrimSpace(test.content); err != nil || shared.Reveal() != want {
					t.Errorf("%d bytes, error %v, want %d bytes", len(shared.Reveal()), err, len(want))
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.problem) || !strings.HasPrefix(err.Error(), "shared.secretFile: ") {
				t.Errorf("error %v, want one that %s", err, test.problem)
			}
		})
	}
	if shared, err := sharedSecret(""); err != nil || shared.Reveal() != "" {
		t.Errorf("without a file: %q, error %v", shared.Reveal(), err)
	}
}

// TestGatewayPoint: listeners of Gateways drain as long as the longest entry point, also
// where that is shorter than the default.
func TestGatewayPoint(t *testing.T) {
	standard := edge.DefaultEntryPoint("", "")
	for _, test := range []struct {
		points       []edge.EntryPoint
		grace, drain time.Duration
	}{
		{nil, standard.AcceptGrace, standard.DrainTimeout},
		{[]edge.EntryPoint{{DrainTimeout: time.Second}}, 0, time.Second},
		{[]edge.EntryPoint{{AcceptGrace: 2 * time.Second, DrainTimeout: time.Second}, {AcceptGrace: time.Second, DrainTimeout: time.Minute}}, 2 * time.Second, time.Minute},
	} {
		if got := gatewayPoint(test.points); got.AcceptGrace != test.grace || got.DrainTimeout != test.drain || got.Name != gatewayEntryPoint {
			t.Errorf("%d entry points: %s and %s, want %s and %s", len(test.points), got.AcceptGrace, got.DrainTimeout, test.grace, test.drain)
		}
	}
}
