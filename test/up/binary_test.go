package up

import (
	"os"
	"path/filepath"
	"testing"

	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/test/binary"
)

// useBinary puts the program beside the cluster's binary, unless the variable names
// one that is built.
func useBinary(t *testing.T) {
	t.Helper()
	built := binary.Path(t)
	if built == os.Getenv(binary.Variable) {
		return
	}
	must.Do(t, os.Symlink(kubetest.Binary(t), filepath.Join(filepath.Dir(built), "slipway-devcluster")))
	t.Setenv(binary.Variable, built)
}
