package migration_test

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/gitops/argosetting"
	"slipway.dev/slipway/internal/kube/kubetest"
)

// TestOtherCluster: an Application for another cluster is compared with that cluster, which
// the Secret of Argo CD opens, by address or by name. One whose cluster cannot be reached
// is not the same.
func TestOtherCluster(t *testing.T) {
	w := newWorld(t, map[string]string{"far/a.yaml": configMap("far", "one"), "drift/a.yaml": configMap("drift", "one"), "here/a.yaml": configMap("far", "here"), "lost/a.yaml": configMap("lost", "one")})
	cluster := kubetest.Start(t, kubetest.WithoutNode())
	cluster.Apply(t, "", "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+w.target+"}\n")
	tls, text := cluster.Config.TLSClientConfig, base64.StdEncoding.EncodeToString
	config := fmt.Sprintf(`{"tlsClientConfig": {"caData": %q, "certData": %q, "keyData": %q}}`, text(tls.CAData), text(tls.CertData), text(tls.KeyData))
	for name, access := range map[string][2]string{"far": {cluster.Config.Host, config}, "lost": {"https://127.0.0.1:1", `{"bearerToken": "x"}`}} {
		w.cluster.Apply(t, w.argo, fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %[1]s, labels: {argocd.argoproj.io/secret-type: cluster}}\nstringData: {name: %[1]s, server: %[2]q, config: %[3]q}\n", name, access[0], access[1]))
	}
	at := func(app, destination string, objects ...string) {
		resources := " []"
		for _, name := range objects {
			resources = strings.TrimSuffix(resources, " []") + fmt.Sprintf("\n  - {version: v1, kind: ConfigMap, name: %s, namespace: %s, status: Synced}", name, w.target)
		}
		w.cluster.Apply(t, w.argo, strings.Replace(w.manifest(app, "", resources), "server: https://kubernetes.default.svc", destination, 1))
	}
	there := *w
	there.cluster = cluster
	there.deployed("far", "ConfigMap", "far", "data: {value: one}")
	there.deployed("far", "ConfigMap", "old", "data: {value: one}")
	there.deployed("drift", "ConfigMap", "drift", "data: {value: two}")
	// The same name in the cluster of Argo CD is another object.
	w.deployed("here", "ConfigMap", "far", "data: {value: here}")
	w.application("here", "", "ConfigMap far")
	at("far", "server: "+cluster.Config.Host, "far")
	at("drift", "name: far", "drift", "far")
	at("lost", "name: lost", "lost")
	report := w.assess()

	far := object(t, report, "Application", "far")
	if got := resource(t, far, "/far"); far.Effect != argosetting.Same || far.Proof.Failed != "" || !slices.Equal(got.SharedWith, []string{w.argo + "/drift"}) || far.Ready(true) {
		t.Errorf("%+v, %+v", far, far.Proof)
	}
	if len(far.Proof.Orphaned) != 1 || !strings.HasSuffix(far.Proof.Orphaned[0], "/old") {
		t.Errorf("orphaned are %v", far.Proof.Orphaned)
	}
	drift := object(t, report, "Application", "drift")
	if got := resource(t, drift, "/drift"); drift.Effect != argosetting.Differs || !strings.Contains(got.Diff, "+  value: one") {
		t.Errorf("%+v, %+v", drift, got)
	}
	here := object(t, report, "Application", "here")
	if got := resource(t, here, "/far"); here.Effect != argosetting.Same || !here.Ready(false) || len(got.SharedWith) > 0 {
		t.Errorf("%+v, %+v", here, here.Proof)
	}
	if lost := object(t, report, "Application", "lost"); lost.Effect != argosetting.Differs || !strings.Contains(lost.Proof.Failed, "https://127.0.0.1:1 cannot be reached from here") {
		t.Errorf("%+v, %+v", lost, lost.Proof)
	}
}
