package supplychain_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/loader"

	"slipway.dev/slipway/internal/must"
)

// release runs what make release runs after the building, with files in the place
// of what was built, and returns the folder.
func release(t *testing.T) string {
	t.Helper()
	from, out := t.TempDir(), filepath.Join(t.TempDir(), "a", "dist")
	for _, name := range []string{"slipway", "slipway-image.tar", "slipway.cdx.json", "slipway-image.cdx.json"} {
		must.Do(t, os.WriteFile(filepath.Join(from, name), []byte(name), 0o755))
	}
	output, err := exec.CommandContext(t.Context(), "../../scripts/release.sh", from, out).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return out
}

// TestRelease: a release has charts that Helm loads, of one version, and checksums
// of everything; the same commit gives the same files.
func TestRelease(t *testing.T) {
	out := release(t)
	var version string
	for _, name := range []string{"gitops-runtime", "platform"} {
		found := must.Get(filepath.Glob(filepath.Join(out, name+"-*.tgz")))(t)
		if len(found) != 1 {
			t.Fatalf("the archives of %s are %v", name, found)
		}
		chart := must.Get(loader.LoadFile(found[0]))(t)
		must.Do(t, chart.Validate())
		if version == "" {
			version = chart.Metadata.AppVersion
		}
		if chart.Name() != name || chart.Metadata.Version != version || chart.Metadata.AppVersion != version || filepath.Base(found[0]) != name+"-"+version+".tgz" {
			t.Errorf("%s is %s %s with the image %s, and the release is %s", found[0], chart.Name(), chart.Metadata.Version, chart.Metadata.AppVersion, version)
		}
		if len(chart.Templates) == 0 || len(chart.Schema) == 0 {
			t.Errorf("%s has %d templates and a schema of %d bytes", name, len(chart.Templates), len(chart.Schema))
		}
	}
	check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "SHA256SUMS")
	check.Dir = out
	text := string(must.Get(check.Output())(t))
	sums := string(must.Get(os.ReadFile(filepath.Join(out, "SHA256SUMS")))(t))
	var names []string
	for _, entry := range must.Get(os.ReadDir(out))(t) {
		names = append(names, entry.Name())
		if entry.Name() != "SHA256SUMS" && !strings.Contains(text, entry.Name()+": OK") {
			t.Errorf("%s has no checksum:\n%s", entry.Name(), text)
		}
	}
	if !slices.Contains(names, "slipway-image.tar") || len(names) != 7 {
		t.Errorf("the release is %s", fmt.Sprint(names))
	}
	if again := string(must.Get(os.ReadFile(filepath.Join(release(t), "SHA256SUMS")))(t)); again != sums {
		t.Errorf("the second release differs:\n%s\n%s", sums, again)
	}
}
