package controller

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

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
