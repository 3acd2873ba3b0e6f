package clusters_test

import (
	"encoding/base64"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/agent/clusters"
)

// canary must not be in any error.
const canary = "canary-token-1"

func clusterSecret(server, config string, annotations map[string]string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "far", Labels: map[string]string{"argocd.argoproj.io/secret-type": "cluster", "env": "prod"}, Annotations: annotations},
		Data:       map[string][]byte{"name": []byte("far"), "server": []byte(server), "config": []byte(config), "namespaces": []byte("a, b")},
	}
}

// Parse takes Argo CD's form of a cluster, and names what it refuses of it.
func TestParse(t *testing.T) {
	const server = "https://far.example:6443"
	pem := base64.StdEncoding.EncodeToString([]byte("PEM"))
	tests := []struct{ name, server, config, account, want string }{
		{"token", server, `{"bearerToken": "` + canary + `", "tlsClientConfig": {"caData": "` + pem + `"}}`, "", ""},
		{"certificate", server + "/", `{"tlsClientConfig": {"certData": "` + pem + `", "keyData": "` + pem + `", "serverName": "api"}}`, "", ""},
		{"own", "https://kubernetes.default.svc", `{}`, "", ""},
		{"plain text", "http://far.example", `{"bearerToken": "` + canary + `"}`, "", "https://host:port"},
		{"user in address", "https://u:" + canary + "@far.example", `{"bearerToken": "x"}`, "", "https://host:port"},
		{"nothing", server, `{}`, "", "neither a bearerToken nor"},
		{"no key", server, `{"tlsClientConfig": {"certData": "` + pem + `"}}`, "", "neither a bearerToken nor"},
		{"program", server, `{"execProviderConfig": {"command": "` + canary + `"}}`, "", "program run"},
		{"proxy", server, `{"bearerToken": "` + canary + `", "proxyUrl": "http://proxy.example.com"}`, "", "proxyUrl, which is not used"},
		{"cloud", server, `{"awsAuthConfig": {"clusterName": "x"}}`, "", "program run"},
		{"password", server, `{"username": "u", "password": "` + canary + `"}`, "", "name and password"},
		{"contradiction", server, `{"bearerToken": "` + canary + `", "tlsClientConfig": {"insecure": true, "caData": "` + pem + `"}}`, "", "contradicts"},
		{"not JSON", server, `{"bearerToken": "` + canary, "", "not JSON"},
		{"account", server, `{"bearerToken": "` + canary + `"}`, "slipway", "write namespace/name"},
		{"no expiry", server, `{"bearerToken": "` + canary + `"}`, "ns/slipway", "RFC 3339"},
	}
	for _, test := range tests {
		annotations := map[string]string{}
		if test.account != "" {
			annotations["slipway.dev/service-account"] = test.account
		}
		entry, err := clusters.Parse(clusterSecret(test.server, test.config, annotations))
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case test.want == "" && (entry.Server != strings.TrimSuffix(test.server, "/") || entry.Labels["env"] != "prod" || len(entry.Labels) != 1):
			t.Errorf("%s: got %+v", test.name, entry)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: got %v, want an error with %q", test.name, err, test.want)
		case err != nil && strings.Contains(err.Error(), canary):
			t.Errorf("%s: the error shows a secret: %v", test.name, err)
		}
	}
}

// FuzzParse: nothing that is in a Secret panics, or comes out in an error.
func FuzzParse(f *testing.F) {
	f.Add("https://far.example", `{"bearerToken": "`+canary+`"}`, "ns/name")
	f.Add("https://far.example", `{"tlsClientConfig": {"caData": "!"}}`, "")
	f.Fuzz(func(t *testing.T, server, config, account string) {
		entry, err := clusters.Parse(clusterSecret(server, config, map[string]string{"slipway.dev/service-account": account}))
		if (entry == nil) == (err == nil) && err == nil {
			t.Error("neither an entry nor an error")
		}
		if err != nil && strings.Contains(err.Error(), canary) && !strings.Contains(account, canary) {
			t.Errorf("the error shows a secret: %v", err)
		}
	})
}

// TestScope: what a Secret says about projects and objects without a namespace.
func TestScope(t *testing.T) {
	const config = `{"bearerToken": "x"}`
	for _, tt := range []struct {
		namespaces, clusterResources string
		onlyNamespaced               bool
	}{
		{"a, b", "", true}, {"a, b", "false", true}, {"a, b", "true", false}, {"", "", false}, {"", "false", false},
	} {
		given := clusterSecret("https://far.example", config, nil)
		given.Data["namespaces"], given.Data["clusterResources"], given.Data["project"] = []byte(tt.namespaces), []byte(tt.clusterResources), []byte("team")
		spec, err := clusters.Parse(given)
		if err != nil {
			t.Fatal(err)
		}
		scope := spec.Scope()
		if scope.Project != "team" || scope.OnlyNamespaced != tt.onlyNamespaced || (len(scope.Namespaces) == 2) != (tt.namespaces != "") {
			t.Errorf("with %+v it is %+v", tt, scope)
		}
	}
}
