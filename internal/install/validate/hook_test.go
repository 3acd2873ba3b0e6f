package validate_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/install/chart"
	"slipway.dev/slipway/internal/install/validate"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/secret"
)

// anonymous has no rights.
func anonymous(t *testing.T, w *world) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(rest.AnonymousClientConfig(w.cluster.Config))
	must.Do(t, err)
	return client
}

// as connects as a ServiceAccount.
func (w *world) as(t *testing.T, namespace, name string) *kube.Cluster {
	t.Helper()
	token, err := w.cluster.Client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must.Do(t, err)
	authorities := filepath.Join(t.TempDir(), "ca.crt")
	must.Do(t, os.WriteFile(authorities, w.cluster.Config.CAData, 0o600))
	connected, err := kube.ConnectAs(kube.ConnectOptions{
		Endpoint: w.cluster.Config.Host, Token: secret.New(token.Status.Token), CAFile: authorities,
		Environ: func(string) string { return "" },
	})
	must.Do(t, err)
	t.Cleanup(connected.Close)
	return connected
}

// TestHook: R30, R39: with the account, the rights and the values that the chart
// gives the hook, everything can be checked that the values name; and nothing else
// can be read.
func TestHook(t *testing.T) {
	w := newWorld(t)
	namespace := w.cluster.Namespace(t)
	w.secret(t, namespace, "mine", map[string]string{"token": w.keys["admin"]})
	w.secret(t, namespace, "other", map[string]string{"token": "x"})
	text := strings.NewReplacer("{token: ADMIN}", "{secretKeyRef: {name: mine}}",
		"{name: prod}", "{name: prod, ingress: {enabled: true, hosts: [prod.example.com], className: none, skipValidation: true}}").Replace(tunnel)
	given := map[string]any{}
	must.Do(t, yaml.Unmarshal([]byte(w.values(text)), &given))
	loaded, err := chart.Load("../../../charts/gitops-runtime")
	must.Do(t, err)
	made, err := loaded.Render(t.Context(), given, chart.Release{Name: "slipway-runtime", Namespace: namespace})
	must.Do(t, err)
	values := ""
	for _, hook := range made.Hooks {
		manifest, err := yaml.Marshal(hook.Object)
		must.Do(t, err)
		switch hook.GetKind() {
		case "Secret":
			data := hook.Object["data"].(map[string]any)
			decoded, err := base64.StdEncoding.DecodeString(data["values.yaml"].(string))
			must.Do(t, err)
			values = string(decoded)
		case "Job":
		default:
			w.cluster.Apply(t, namespace, string(manifest))
		}
	}
	account := w.as(t, namespace, "slipway-validate")
	live := *w.live
	live.Cluster = account
	report := validate.Run(t.Context(), validate.Options{Values: strings.NewReader(values), Namespace: namespace, Version: loaded.Version(), World: &live})
	if told(report) != "error IngressClassMissing global.runtime.ingress.className" || report.Mode != "ingress" {
		t.Errorf("found:\n%s\n%v", told(report), report.Findings)
	}
	if _, err := live.Secret(t.Context(), namespace, "other", "token"); err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("another Secret is read: %v", err)
	}
}
