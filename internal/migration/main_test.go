package migration_test

import (
	"testing"

	"slipway.dev/slipway/internal/gitops/argotest"
	"slipway.dev/slipway/internal/kube/kubetest"
)

func TestMain(m *testing.M) { argotest.Main(m, func(m *testing.M) { kubetest.Main(m) }) }
