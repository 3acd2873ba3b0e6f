package webhook_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/gitops/webhook"
)

// TestRegistries: events of registries name an image, if their sender has the secret.
func TestRegistries(t *testing.T) {
	const hub = `{"push_data": {"tag": "1.2"}, "repository": {"repo_name": "team/web"}}`
	const ghcr = `{"action": "published", "package": {"name": "web", "namespace": "Team", "package_type": "CONTAINER"}}`
	const harbor = `{"type": "PUSH_ARTIFACT", "event_data": {"resources": [{"resource_url": "harbor.example.com:8443/team/web:1.2"}]}}`
	const quay = `{"repository": "team/web", "docker_url": "quay.io/team/web", "updated_tags": ["1.2"]}`
	mac := hmac.New(sha256.New, []byte("s3cret"))
	mac.Write([]byte(ghcr))
	signature := "sha256=" + hex.EncodeToString(mac.Sum(nil))
	for _, tt := range []struct {
		name, query, body string
		header            map[string]string
		code              int
		want              string
	}{
		{name: "Docker Hub", query: "type=docker.io&secret=s3cret", body: hub, code: 200, want: "docker.io/team/web"},
		{name: "another secret", query: "type=docker.io&secret=other", body: hub, code: 401},
		{name: "no secret", query: "type=docker.io", body: hub, code: 401},
		{name: "GitHub", query: "type=ghcr.io", body: ghcr, header: map[string]string{"X-Hub-Signature-256": signature}, code: 200, want: "ghcr.io/team/web"},
		{name: "GitHub, not signed", query: "type=ghcr.io&secret=s3cret", body: ghcr, code: 401},
		{name: "GitHub, another body", query: "type=ghcr.io", body: ghcr + " ", header: map[string]string{"X-Hub-Signature-256": signature}, code: 401},
		{name: "Harbor", query: "type=harbor", body: harbor, header: map[string]string{"Authorization": "s3cret"}, code: 200, want: "harbor.example.com:8443/team/web"},
		{name: "Harbor, deleted", query: "type=harbor", body: `{"type": "DELETE_ARTIFACT"}`, header: map[string]string{"Authorization": "s3cret"}, code: 202},
		{name: "Quay", query: "type=quay.io&secret=s3cret", body: quay, code: 200, want: "quay.io/team/web"},
		{name: "no JSON", query: "type=quay.io&secret=s3cret", body: "x", code: 400},
		{name: "no image", query: "type=quay.io&secret=s3cret", body: `{"docker_url": "../x y"}`, code: 400},
		{name: "unknown", query: "type=aliyun-acr&secret=s3cret", body: quay, code: 400},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			handler := &webhook.Handler{
				Secrets: func(webhook.Provider) []string { return nil }, Notify: func(webhook.Push) { t.Error("a push of Git") },
				RegistrySecrets: func(webhook.Registry) []string { return []string{"s3cret"} }, NotifyImage: func(image string) { got = image },
			}
			request := httptest.NewRequest(http.MethodPost, "/webhook?"+tt.query, strings.NewReader(tt.body))
			for name, value := range tt.header {
				request.Header.Set(name, value)
			}
			response := httptest.NewRecorder()
			handler.ServeHTTP(response, request)
			if response.Code != tt.code || got != tt.want {
				t.Errorf("%d %q: %s", response.Code, got, response.Body)
			}
		})
	}
}

func FuzzParseRegistry(f *testing.F) {
	f.Add("harbor", []byte(`{"type": "PUSH_ARTIFACT", "event_data": {"resources": [{"resource_url": "a/b:1"}]}}`))
	f.Add("docker.io", []byte(`{"repository": {"repo_name": "a/b"}}`))
	f.Fuzz(func(t *testing.T, of string, body []byte) {
		if image, err := webhook.ParseRegistry(webhook.Registry(of), body); err == nil && strings.ContainsAny(image, " \n@") {
			t.Errorf("%q gives %q", body, image)
		}
	})
}
