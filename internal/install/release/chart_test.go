package release_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/charts"
	"slipway.dev/slipway/internal/install/release"
	"slipway.dev/slipway/internal/must"
)

// TestFindChart: a chart comes from a folder or an archive, and an error reports that it is not
// there or of another version.
func TestFindChart(t *testing.T) {
	archive, err := charts.Archive(charts.Runtime)
	must.Do(t, err)
	file := filepath.Join(t.TempDir(), "gitops-runtime.tgz")
	must.Do(t, os.WriteFile(file, archive, 0o600))
	for _, place := range []string{file, "../../../charts/gitops-runtime"} {
		chart, err := release.FindChart(t.Context(), release.Source{Place: place})
		must.Do(t, err)
		if chart.Name() != "gitops-runtime" || chart.Version() != ownChart(t).Version() {
			t.Errorf("%s is %s %s", place, chart.Name(), chart.Version())
		}
	}
	for want, source := range map[string]release.Source{
		"there is no chart at":      {Place: "nowhere"},
		"has the version":           {Place: file, Version: "99.0.0"},
		"fetch the chart oci://127": {Place: "oci://127.0.0.1:1/gitops-runtime", PlainHTTP: true},
	} {
		if _, err := release.FindChart(t.Context(), source); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, wanted %q", source, err, want)
		}
	}
}

// TestOlder: versions are compared as such, and not as texts.
func TestOlder(t *testing.T) {
	for _, tt := range []struct {
		version, than string
		want          bool
	}{{"0.9.0", "0.10.0", true}, {"0.10.0", "0.9.0", false}, {"1.0.0-rc.1", "1.0.0", true}, {"1.0.0", "1.0.0", false}, {"v1.0.0", "1.0.1", true}} {
		if got, err := release.Older(tt.version, tt.than); err != nil || got != tt.want {
			t.Errorf("%s older than %s: %v, %v", tt.version, tt.than, got, err)
		}
	}
	if _, err := release.Older("newest", "1.0.0"); err == nil {
		t.Error("newest is a version")
	}
}

// FuzzObjects: what is read from a manifest is an object, and errors do not repeat the
// text, which may have secrets in it.
func FuzzObjects(f *testing.F) {
	f.Add("kind: Secret\nmetadata: {name: a}\n---\nkind: A\nmetadata: {name: b}\n")
	f.Add("---\n# nothing\n---\n")
	f.Add("canary: [")
	f.Fuzz(func(t *testing.T, text string) {
		objects, err := release.ObjectsOf(text)
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("the text is in %v", err)
		}
		for _, object := range objects {
			if object.GetKind() == "" || object.GetName() == "" {
				t.Errorf("%v is an object", object)
			}
		}
	})
}
