package rollout_test

import (
	"testing"

	"slipway.dev/slipway/internal/gitops/argotest"
	"slipway.dev/slipway/internal/kube/kubetest"
)

// The test program is its own worker.
func TestMain(m *testing.M) { argotest.Main(m, func(m *testing.M) { kubetest.Main(m) }) }
