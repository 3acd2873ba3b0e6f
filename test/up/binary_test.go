package up

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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

// useRelease installs the program from the folder of a release, as a newcomer does,
// for the rest of the test, in which neither Go nor make is in PATH. Only the image
// and the bills of materials, which are not installed, are left out of the release.
func useRelease(t *testing.T) {
	t.Helper()
	from, out, prefix := t.TempDir(), filepath.Join(t.TempDir(), "dist"), filepath.Join(t.TempDir(), "prefix")
	platform := filepath.Join(from, "linux-"+runtime.GOARCH)
	must.Do(t, os.Mkdir(platform, 0o755))
	must.Do(t, os.WriteFile(filepath.Join(from, "slipway-image.tar"), nil, 0o600))
	for name, built := range map[string]string{"slipway": os.Getenv(binary.Variable), "slipway-devcluster": kubetest.Binary(t)} {
		must.Do(t, os.Symlink(must.Get(filepath.Abs(built))(t), filepath.Join(platform, name)))
	}
	run := func(path, script string, arguments ...string) {
		t.Helper()
		command := exec.CommandContext(t.Context(), script, arguments...)
		// The files are large, and nothing is learnt from packing them well.
		command.Env = []string{"PATH=" + path, "HOME=" + t.TempDir(), "GZIP_LEVEL=1", "WITHOUT_PACKAGES=yes"}
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, output)
		}
	}
	const plain = "/usr/bin:/bin:/usr/sbin:/sbin"
	run(plain, "../../scripts/release.sh", from, out)
	run(plain, filepath.Join(out, "install.sh"), "--prefix", prefix)
	t.Setenv(binary.Variable, filepath.Join(prefix, "bin", "slipway"))
	t.Setenv("PATH", plain)
}
