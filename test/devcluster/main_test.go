// Package devcluster_test drives bin/slipway-devcluster from outside: it
// starts the binary, talks to its API server as any client would, signals and
// kills it, and looks at the processes and files that it leaves.
//
// The tests run in a private network. They share one cluster where they only
// use it, and have one of their own where they stop it.
package devcluster_test

import (
	"testing"

	"slipway.dev/slipway/internal/kube/kubetest"
)

func TestMain(m *testing.M) { kubetest.Main(m) }
