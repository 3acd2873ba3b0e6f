package diagnosecmd_test

import (
	"strings"
	"testing"

	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/kube/kubetest"
)

// TestExplainCluster reads a live cluster in which something is refused: the
// refusal is in the explanation, and the command does not need an admin API.
func TestExplainCluster(t *testing.T) {
	cluster := kubetest.Shared(t) // before the environment is cleaned
	namespace := cluster.Namespace(t)
	cluster.Apply(t, namespace, `apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: slipway}
spec: {controller: slipway.dev/ingress-controller}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: gone}
spec:
  ingressClassName: slipway
  rules:
  - host: gone.example
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: gone, port: {number: 80}}}}]}
`)
	clitest.Clean(t, "KUBECONFIG="+cluster.Kubeconfig)
	got := clitest.Run(t, "explain http://gone.example/")
	for _, want := range []string{"Ingress " + namespace + "/gone[0][0] serves it", "there is no Service " + namespace + "/gone"} {
		if got.Code != 0 || !strings.Contains(got.Stdout, want) {
			t.Errorf("%q is missing: %+v", want, got)
		}
	}
}
