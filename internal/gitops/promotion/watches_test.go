package promotion_test

import (
	"testing"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/codefresh/v1beta1"
	slipway "slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/gitops/promotion"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/programs"
)

// TestApplicationsAreWatchedWhenNeeded: without a Product and a Promotion no Application is
// read.
func TestApplicationsAreWatchedWhenNeeded(t *testing.T) {
	w := newWorld(t)
	var requests kubetest.Gate
	w.start(t, func(options *promotion.Options) { options.Cluster = w.Connect(t, requests.Option) })
	isWatched := func(resource string) bool { return len(requests.Requests("/namespaces/"+w.namespace+"/"+resource)) > 0 }
	for _, resource := range []string{slipway.ResourcePromotion, v1beta1.ProductResource().Resource} {
		programs.Until(t, "a watch of "+resource, func() bool { return isWatched(resource) })
	}
	apps := v1alpha1.ApplicationResource().Resource
	if isWatched(apps) {
		t.Error("Applications are watched without a Product")
	}
	w.promote(t, "one", "")
	programs.Until(t, "a watch of Applications", func() bool { return isWatched(apps) })
}
