package appcmd_test

import (
	"strings"
	"testing"

	"slipway.dev/slipway/internal/cli/appcmd"
)

// TestEqualLabels: over all runtimes a selector has only terms key=value.
func TestEqualLabels(t *testing.T) {
	for selector, want := range map[string]string{"": "", "a=b": "a=b", "a==b, c=": "a=b c=", "a": "error", "!a": "error", "a in (b)": "error", "a!=b": "error"} {
		got, err := appcmd.EqualLabels(selector)
		if text := strings.Join(got, " "); err == nil && text != want || (err != nil) != (want == "error") {
			t.Errorf("%q: got %q, %v", selector, text, err)
		}
	}
}
