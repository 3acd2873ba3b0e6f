package appproxy_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/access/router"
	"slipway.dev/slipway/internal/access/token"
	"slipway.dev/slipway/internal/agent/appproxy"
	"slipway.dev/slipway/internal/gitops/webhook"
	"slipway.dev/slipway/internal/wire"
)

// push is what GitHub sends.
const push = `{"ref":"refs/heads/main","before":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","after":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",` +
	`"commits":[],"repository":{"full_name":"team/shop","clone_url":"https://github.com/team/shop.git","html_url":"https://github.com/team/shop","default_branch":"main"}}`

// hookRouter is a runtime that hears Git hosts: the source own has a secret of its
// own, all others share one.
func hookRouter(heard *[]webhook.Push) http.Handler {
	hooks := appproxy.NewWebhooks(appproxy.WebhookOptions{
		Secrets: func(source string, _ webhook.Provider) ([]string, bool) {
			if source == "own" {
				return []string{"own-secret"}, true
			}
			return nil, false
		},
		Shared: func(webhook.Provider) []string { return []string{"shared-secret"} },
		Notify: func(push webhook.Push) { *heard = append(*heard, push) },
	})
	return router.New(router.Options{Runtime: "prod", Webhooks: hooks, Verify: func(context.Context, string) (wire.RuntimeClaims, error) {
		return wire.RuntimeClaims{}, refusal.New("", token.ReasonMissing, "no token")
	}})
}

func pushed(handler http.Handler, path, secret, from string) int {
	signature := hmac.New(sha256.New, []byte(secret))
	signature.Write([]byte(push))
	request := httptest.NewRequest(http.MethodPost, path, strings.NewReader(push))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-GitHub-Event", "push")
	request.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(signature.Sum(nil)))
	if from != "" {
		request.Header.Set("X-Forwarded-For", from)
	}
	return serve(handler, request).Code
}

// TestWebhooks: the path names the runtime, and the source chooses the secret when
// it has one.
func TestWebhooks(t *testing.T) {
	for _, c := range []struct {
		name, path, secret string
		status, pushes     int
	}{
		{"shared secret", "/webhooks/prod/shop", "shared-secret", 200, 1},
		{"own secret", "/webhooks/prod/own", "own-secret", 200, 1},
		{"shared secret where there is an own one", "/webhooks/prod/own", "shared-secret", 401, 0},
		{"own secret of another source", "/webhooks/prod/shop", "own-secret", 401, 0},
		{"another runtime", "/webhooks/other/shop", "shared-secret", 404, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var heard []webhook.Push
			if got := pushed(hookRouter(&heard), c.path, c.secret, ""); got != c.status || len(heard) != c.pushes {
				t.Errorf("got %d, heard %v", got, heard)
			}
		})
	}
}

// TestWebhookLimit: who sends too much is refused; others, behind the same tunnel,
// are not, and neither are sources with secrets of their own.
func TestWebhookLimit(t *testing.T) {
	var heard []webhook.Push
	handler := hookRouter(&heard)
	limited := false
	for range 2 * webhook.DefaultPerMinute {
		limited = limited || pushed(handler, "/webhooks/prod/shop", "wrong", "spoofed, 192.0.2.1") == http.StatusTooManyRequests
	}
	if !limited {
		t.Error("nobody stopped it")
	}
	for path, secret := range map[string]string{"/webhooks/prod/shop": "shared-secret", "/webhooks/prod/own": "own-secret"} {
		from := "192.0.2.1"
		if secret == "shared-secret" {
			from = "192.0.2.2"
		}
		if got := pushed(handler, path, secret, from); got != http.StatusOK {
			t.Errorf("%s from %s: got %d", path, from, got)
		}
	}
}
