package migrate_test

import (
	"fmt"
	"os"
	"testing"

	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/kube/kubetest"
)

// workerArgument makes the test binary a render worker.
const workerArgument = "render-worker"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == workerArgument {
		if err := render.ServeWorker(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	kubetest.Main(m)
}
