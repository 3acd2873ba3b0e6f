package accountcmd_test

import (
	"testing"

	"slipway.dev/slipway/internal/cli/accountcmd"
)

// FuzzLifetime: what is shown reads as the same.
func FuzzLifetime(f *testing.F) {
	for _, seed := range []string{"90d", "12h", "0", "-1h", "1y", "99999999d"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		read, shown, err := accountcmd.Lifetime(text)
		if err != nil {
			return
		}
		if again, _, err := accountcmd.Lifetime(shown); read < 0 || err != nil || again != read {
			t.Errorf("%q is %v, shown as %q: %v, %v", text, read, shown, again, err)
		}
	})
}
