package appcmd_test

import (
	"strings"
	"testing"

	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/kube/kubetest"
)

// TestAppRights: the error for a user without a right names the right.
func TestAppRights(t *testing.T) {
	w := clitest.NewAppWorld(t)
	w.ApplyManifests(t, shopApp)
	w.ApplyManifests(t, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: nobody}\n")
	w.UserKubeconfig = accountKubeconfig(t, w.Cluster, w.TestNamespace, "nobody")
	for line, want := range map[string]string{
		"get shop":  "you may not get Applications in the namespace " + w.TestNamespace + ": request that permission on applications.argoproj.io",
		"list":      "you may not list Applications in the namespace " + w.TestNamespace,
		"list -A":   "you may not list Applications in all namespaces",
		"sync shop": "you may not get Applications",
	} {
		if got := w.App(t, line); got.Code != 1 || !strings.Contains(got.Stderr, want) {
			t.Errorf("%s: got %+v, wanted %q", line, got, want)
		}
	}
}

// TestAppWithoutKinds: a cluster that knows no Applications.
func TestAppWithoutKinds(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.WithoutNode())
	clitest.Clean(t)
	for _, line := range []string{"list -A", "get shop"} {
		got := clitest.Run(t, "app "+line+" --kubeconfig "+cluster.Kubeconfig)
		if got.Code != 1 || !strings.Contains(got.Stderr, "the cluster has no Applications: install their definitions with kubectl apply") {
			t.Errorf("%s: %+v", line, got)
		}
	}
}
