package agent_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/agent"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// TestSignedCommits: a project with signature keys deploys nothing that is not signed, and
// what is signed once the key is in its ConfigMap.
func TestSignedCommits(t *testing.T) {
	w := newWorld(t)
	repository := gittest.Serve(t).Repository(t, "shop", map[string]string{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: signed}\n"})
	key := must.Get(openpgp.NewEntity("A", "", "a@example.com", nil))(t)
	signed := repository.Sign(t, func(commit string) string {
		var text bytes.Buffer
		must.Do(t, openpgp.ArmoredDetachSign(&text, key, strings.NewReader(commit), nil))
		return text.String()
	})
	w.apply(t, fmt.Sprintf("apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: signed}\n"+
		"spec: {sourceRepos: [\"*\"], destinations: [{server: \"*\", namespace: CONTROL}], namespaceResourceWhitelist: [{group: \"\", kind: ConfigMap}], signatureKeys: [{keyID: %X}]}\n",
		key.PrimaryKey.Fingerprint))
	w.start(t, "one").readyWhen(t, "")
	w.apply(t, fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: app}
spec:
  project: signed
  source: {repoURL: %q, path: ".", targetRevision: main}
  destination: {server: https://kubernetes.default.svc, namespace: CONTROL}
  syncPolicy: {automated: {}}
`, repository.URL()))
	w.await(t, "app", func(status map[string]any) error {
		if text := fmt.Sprint(status["conditions"]); !strings.Contains(text, "a key in the ConfigMap argocd-gpg-keys-cm") {
			return fmt.Errorf("its conditions are %s", text)
		}
		return nil
	})
	var public bytes.Buffer
	writer := must.Get(armor.Encode(&public, openpgp.PublicKeyType, nil))(t)
	must.Do(t, key.Serialize(writer))
	must.Do(t, writer.Close())
	w.apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: argocd-gpg-keys-cm}\ndata:\n  key: |\n    "+strings.ReplaceAll(public.String(), "\n", "\n    ")+"\n")
	w.syncedTo(t, "app", signed)
}

// TestKeysBeforeApplications: nothing is reconciled before the keys of signatures were requested
// once, so that a restart refuses no commit that was deployed. An agent that may not read them
// starts all the same.
func TestKeysBeforeApplications(t *testing.T) {
	w := newWorld(t)
	gate, held, release := &kubetest.Gate{}, make(chan struct{}, 1), make(chan struct{})
	gate.Handle(func(request *http.Request, send kubetest.Send) (*http.Response, error) {
		if !strings.Contains(request.URL.RawQuery, "argocd-gpg-keys-cm") {
			return send(request)
		}
		select {
		case held <- struct{}{}:
		default:
		}
		select {
		case <-release:
		case <-request.Context().Done():
			return nil, request.Context().Err()
		}
		body := `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403}`
		return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: request}, nil
	})
	cluster := *w.Connect(t, gate.Option)
	cluster.Namespace = w.control
	r := w.start(t, "one", func(options *agent.Options) { options.Cluster = &cluster })
	<-held
	// Without the wait the agent leads long before all of these requests have ended.
	for range 300 {
		must.Get(w.Client.CoreV1().Namespaces().Get(t.Context(), w.control, metav1.GetOptions{}))(t)
	}
	if found := gate.Requests("/leases"); len(found) > 0 {
		t.Errorf("it wants to lead without the keys: %q", found)
	}
	close(release)
	r.readyWhen(t, "")
}
