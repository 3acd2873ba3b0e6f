package apiclient_test

import (
	"bytes"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/cli/apiclient"
)

// FuzzContexts: what was read is written as it was, and an error shows nothing of
// the file.
func FuzzContexts(f *testing.F) {
	f.Add([]byte("currentContext: a\ncontexts:\n- {name: a, url: 'https://a.example', key: canary, keyExpires: '2026-12-01T00:00:00Z'}\n"))
	f.Add([]byte("contexts: [{name: a, url: 'http://a.example', key: canary}]"))
	f.Add([]byte("contexts: [{name: a, url: 'https://canary@a.example'}]"))
	f.Add([]byte("- canary"))
	f.Fuzz(func(t *testing.T, text []byte) {
		once, err := apiclient.RewriteContexts(text)
		if err != nil {
			if strings.Contains(err.Error(), "canary") {
				t.Errorf("the error shows a key: %v", err)
			}
			return
		}
		twice, err := apiclient.RewriteContexts(once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Errorf("%q becomes %q: %v", once, twice, err)
		}
	})
}
