package webhook_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"net/url"
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
	const aliyun = `{"push_data": {"tag": "1.2"}, "repository": {"name": "web", "namespace": "team", "region": "cn-shanghai", "repo_full_name": "team/web"}}`
	const azure = `{"action": "push", "target": {"repository": "team/web", "tag": "1.2"}, "request": {"host": "acme.azurecr.io"}}`
	const google = `{"action": "INSERT", "digest": "europe-docker.pkg.dev/acme/team/web@sha256:11", "tag": "europe-docker.pkg.dev/acme/team/web:1.2"}`
	const ecr = `{"specversion": "1.0", "type": "com.amazon.ecr.image.push", "source": "urn:aws:ecr:eu-west-1:123456789012:repository/team/web", "subject": "team/web:1.2",
		"data": {"repositoryName": "team/web", "imageTag": "1.2", "registryId": "123456789012"}}`
	pubsub := func(event string) string {
		return `{"message": {"data": "` + base64.StdEncoding.EncodeToString([]byte(event)) + `", "messageId": "1"}, "subscription": "projects/acme/subscriptions/s"}`
	}
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
		{name: "Aliyun", query: "type=aliyun-acr&secret=s3cret", body: aliyun, code: 200, want: "registry.cn-shanghai.aliyuncs.com/team/web"},
		{name: "Aliyun, of an enterprise", query: "type=aliyun-acr&secret=s3cret&registry_url=acme-registry.cn-shanghai.cr.aliyuncs.com", body: aliyun, code: 200,
			want: "acme-registry.cn-shanghai.cr.aliyuncs.com/team/web"},
		{name: "Aliyun, by its parts", query: "type=aliyun-acr&secret=s3cret", body: strings.Replace(aliyun, `"repo_full_name": "team/web"`, `"repo_full_name": ""`, 1), code: 200,
			want: "registry.cn-shanghai.aliyuncs.com/team/web"},
		{name: "Aliyun, without a namespace", query: "type=aliyun-acr&secret=s3cret", body: `{"repository": {"name": "web", "region": "cn-shanghai"}}`, code: 400},
		{name: "Docker Hub, without a name", query: "type=docker.io&secret=s3cret", body: `{}`, code: 400},
		{name: "Aliyun, without a region", query: "type=aliyun-acr&secret=s3cret", body: `{"repository": {"repo_full_name": "team/web"}}`, code: 400},
		{name: "Azure", query: "type=acr&secret=s3cret", body: azure, code: 200, want: "acme.azurecr.io/team/web"},
		{name: "Azure, a ping", query: "type=acr&secret=s3cret", body: `{"action": "ping"}`, code: 202},
		{name: "Azure, without a host", query: "type=acr&secret=s3cret", body: `{"action": "push", "target": {"repository": "team/web"}}`, code: 400},
		{name: "Google", query: "type=artifact-registry&secret=s3cret", body: pubsub(google), code: 200, want: "europe-docker.pkg.dev/acme/team/web"},
		{name: "Google, unwrapped", query: "type=artifact-registry&secret=s3cret", body: google, code: 200, want: "europe-docker.pkg.dev/acme/team/web"},
		{name: "Google, GCR by its tag", query: "type=artifact-registry&secret=s3cret", body: pubsub(`{"action": "INSERT", "tag": "gcr.io/acme/web:1.2"}`), code: 200, want: "gcr.io/acme/web"},
		{name: "Google, deleted", query: "type=artifact-registry&secret=s3cret", body: pubsub(strings.Replace(google, "INSERT", "DELETE", 1)), code: 202},
		{name: "Google, another message", query: "type=artifact-registry&secret=s3cret", body: pubsub("x"), code: 400},
		{name: "ECR", query: "type=cloudevents&secret=s3cret", body: ecr, code: 200, want: "123456789012.dkr.ecr.eu-west-1.amazonaws.com/team/web"},
		{name: "ECR, the secret in a header", query: "type=cloudevents", body: ecr, header: map[string]string{"X-Webhook-Secret": "s3cret"}, code: 200,
			want: "123456789012.dkr.ecr.eu-west-1.amazonaws.com/team/web"},
		{name: "ECR, another secret in the header", query: "type=cloudevents", body: ecr, header: map[string]string{"X-Webhook-Secret": "other"}, code: 401},
		{name: "ECR, without data", query: "type=cloudevents&secret=s3cret", body: `{"specversion": "1.0", "type": "com.amazon.ecr.image.push", "source": "arn:aws:ecr:eu-west-1:1:repository/web"}`, code: 200,
			want: "1.dkr.ecr.eu-west-1.amazonaws.com/web"},
		{name: "ECR, another source", query: "type=cloudevents&secret=s3cret", body: `{"specversion": "1.0", "type": "com.amazon.ecr.image.push", "source": "urn:aws:s3:eu-west-1:1:x"}`, code: 400},
		{name: "another CloudEvent", query: "type=cloudevents&secret=s3cret", body: `{"specversion": "1.0", "type": "com.example.mail"}`, code: 202},
		{name: "no image of Harbor", query: "type=harbor", body: `{"type": "PUSH_ARTIFACT", "event_data": {"resources": [{}]}}`, header: map[string]string{"Authorization": "s3cret"}, code: 400},
		{name: "fields of other types", query: "type=acr&secret=s3cret", body: `{"action": 1}`, code: 400},
		{name: "unknown", query: "type=nexus&secret=s3cret", body: quay, code: 400},
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

// FuzzParseRegistry: no event of any registry gives a name with signs that no image has.
func FuzzParseRegistry(f *testing.F) {
	for _, of := range append(webhook.Registries(), "nexus") {
		f.Add(string(of), "", []byte(`{"type": "PUSH_ARTIFACT", "event_data": {"resources": [{"resource_url": "a/b:1"}]}}`))
		f.Add(string(of), "", []byte(`{"repository": {"repo_name": "a/b", "repo_full_name": "a/b", "region": "r"}, "docker_url": "q/a"}`))
		f.Add(string(of), "r.example.com", []byte(`{"action": "push", "target": {"repository": "a"}, "request": {"host": "h"}, "repository": {"repo_full_name": "a/b"}}`))
		f.Add(string(of), "", []byte(`{"message": {"data": "eyJhY3Rpb24iOiJJTlNFUlQiLCJ0YWciOiJhL2I6MSJ9"}}`))
		f.Add(string(of), "", []byte(`{"specversion": "1.0", "type": "com.amazon.ecr.image.push", "source": "urn:aws:ecr:r:1:repository/a"}`))
	}
	f.Fuzz(func(t *testing.T, of, registry string, body []byte) {
		image, err := webhook.ParseRegistry(webhook.Registry(of), body, url.Values{"registry_url": {registry}})
		if err == nil && image != "" && (strings.ContainsAny(image, " \n@") || !strings.Contains(image, "/") || image != strings.ToLower(image)) {
			t.Errorf("%q gives %q", body, image)
		}
	})
}
