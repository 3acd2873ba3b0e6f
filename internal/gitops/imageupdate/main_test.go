package imageupdate_test

import (
	"testing"

	"slipway.dev/slipway/internal/kube/kubetest"
)

func TestMain(m *testing.M) { kubetest.Main(m) }
