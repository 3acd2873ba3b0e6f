package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/cli"
)

// ran runs a command line in this process.
func ran(t *testing.T, args ...string) result {
	t.Helper()
	var stdout, stderr strings.Builder
	code := cli.Execute(t.Context(), args, &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// TestImages: R78: the images of the chart that is in the program, with and without
// values; the values for a private registry; and what is wrong with command lines.
// Copying is tested where a registry is.
func TestImages(t *testing.T) {
	clean(t)
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte("image: {tag: 9.9.9}\nedge: {enabled: false}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := ran(t, "images", "list", "-f", file); got.code != 0 || !strings.Contains(got.stdout, "slipway.dev/slipway:9.9.9") || strings.Contains(got.stdout, "slipway-edge") {
		t.Errorf("%+v", got)
	}
	if got := ran(t, "images", "list", "-o", "name", "--chart", "../../charts/gitops-runtime", "-f", file); got.code == 0 {
		t.Errorf("a chart that needs a platform was rendered without: %+v", got)
	}
	if got := ran(t, "images", "list", "-o", "json"); got.code != 0 || !strings.Contains(got.stdout, `"Deployment slipway-edge"`) {
		t.Errorf("%+v", got)
	}
	want := "global:\n  imagePullSecrets:\n  - pull\n  imageRegistry: registry.example.com/mirror\n"
	if got := ran(t, "images", "values", "--registry", "registry.example.com/mirror", "--pull-secret", "pull", "-f", file); got.code != 0 || got.stdout != want {
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
		if got := ran(t, strings.Fields(line)...); got.code != 2 || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: %+v", line, got)
		}
	}
}
