package installcmd_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/cli"
	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/must"
)

// ran runs a command line in this process.
func ran(t *testing.T, args ...string) clitest.Result {
	t.Helper()
	var stdout, stderr strings.Builder
	code := cli.Execute(t.Context(), args, &stdout, &stderr)
	return clitest.Result{Code: code, Stdout: stdout.String(), Stderr: stderr.String()}
}

// TestImages: R78: the images of the chart that is in the program, with and without
// values; the values for a private registry; and what is wrong with command lines.
// Copying is tested where a registry is.
func TestImages(t *testing.T) {
	clitest.Clean(t)
	file := filepath.Join(t.TempDir(), "values.yaml")
	must.Do(t, os.WriteFile(file, []byte("image: {tag: 9.9.9}\nedge: {enabled: false}\n"), 0o600))
	if got := ran(t, "images", "list", "-f", file); got.Code != 0 || !strings.Contains(got.Stdout, "slipway.dev/slipway:9.9.9") || strings.Contains(got.Stdout, "slipway-edge") {
		t.Errorf("%+v", got)
	}
	if got := ran(t, "images", "list", "-o", "name", "--chart", "../../../charts/gitops-runtime", "-f", file); got.Code == 0 {
		t.Errorf("a chart that needs a platform was rendered without: %+v", got)
	}
	if got := ran(t, "images", "list", "-o", "json"); got.Code != 0 || !strings.Contains(got.Stdout, `"Deployment slipway-edge"`) {
		t.Errorf("%+v", got)
	}
	want := "global:\n  imagePullSecrets:\n  - pull\n  imageRegistry: registry.example.com/mirror\n"
	if got := ran(t, "images", "values", "--registry", "registry.example.com/mirror", "--pull-secret", "pull", "-f", file); got.Code != 0 || got.Stdout != want {
		t.Errorf("%+v", got)
	}
	for line, want := range map[string]string{
		"images values": "--registry",
		"images mirror": "--to",
		"images mirror --to r.example.com --plain-http=often":            "choose never, loopback or always",
		"images mirror --to r.example.com --auth-file " + file + ".none": "credentials",
		"images list -f " + file + ".none":                               "read the values",
		"images list -o wide":                                            "--output",
	} {
		if got := ran(t, strings.Fields(line)...); got.Code != 2 || !strings.Contains(got.Stderr, want) {
			t.Errorf("%s: %+v", line, got)
		}
	}
}
