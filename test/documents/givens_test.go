package documents

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/test/kubelet"
)

// givens are the states that a section of a script can take for granted, by the
// names that the scripts use. Each lasts until its script ends.
func givens() map[string]func(t *testing.T, w *world, dir string) {
	return map[string]func(t *testing.T, w *world, dir string){
		"a controller Ambassador":       ambassador().has,
		"a controller AWS ALB":          awsController().has,
		"a controller NGINX Enterprise": enterprise().has,
		"the operator of NGINX":         hasOperator,
		"the operator of NGINX is gone": operatorGoes,
		"a controller Traefik":          traefik().has,
		"Istio with a Gateway":          hasMesh,
		"an Argo CD":                    hasArgoCD,
		"definitions of Argo CD":        ownerless,
		"definitions of Rollouts":       hasRollouts,
		"a second cluster":              hasSecondCluster,
		"an image without our authority": func(_ *testing.T, w *world, _ string) {
			w.node.untrusting.Store(true)
		},
		"an image with our authority": func(_ *testing.T, w *world, _ string) {
			w.node.untrusting.Store(false)
		},
		"no runtime": func(t *testing.T, w *world, _ string) {
			t.Helper()
			w.takeAway(t)
		},
	}
}

// hasArgoCD gives the cluster a Deployment of Argo CD in a namespace of its own, and
// one of Rollouts.
func hasArgoCD(t *testing.T, w *world, dir string) {
	t.Helper()
	controller{namespace: "argocd", name: "argocd-server", image: "quay.io/argoproj/argocd:v3.3.10", labels: "app.kubernetes.io/part-of: argocd", args: []string{"argocd-server"}}.has(t, w, dir)
	controller{namespace: "argo-rollouts", name: "argo-rollouts", image: "quay.io/argoproj/argo-rollouts:v1.8.3", labels: "app.kubernetes.io/part-of: argo-rollouts", args: []string{"rollouts-controller"}}.has(t, w, dir)
}

// hasRollouts gives the cluster the definition of Argo Rollouts, without an owner.
func hasRollouts(t *testing.T, w *world, _ string) {
	t.Helper()
	w.define(t, schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "rollouts"}, "Rollout")
}

// hasSecondCluster starts a cluster with a node, whose kubeconfig is in $SECOND.
func hasSecondCluster(t *testing.T, w *world, _ string) {
	t.Helper()
	second := kubetest.Start(t, kubetest.WithoutNode())
	kubelet.Start(t, second, w.node.options(t))
	w.variables = append(w.variables, "SECOND="+second.Kubeconfig)
}
