package crds_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/install/crds"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/preflight"
)

// TestFixGivenBack: what the fix of preflight adopts, a release gives back as it was:
// it writes the same record.
func TestFixGivenBack(t *testing.T) {
	w := newWorld(t)
	w.mark("appprojects.argoproj.io", map[string]string{"team": "a"}, map[string]string{"note": "keep"})
	before := w.marks()
	results := preflight.Run(t.Context(), preflight.World{
		Cluster: w.Cluster.Cluster,
		Adoption: func(live *metav1.PartialObjectMetadata, release, namespace string) ([]byte, error) {
			return crds.AdoptionOf(live, crds.Place{Name: release, Namespace: namespace})
		},
	}, preflight.Options{
		Release: w.options.Release.Name, Only: []preflight.Code{preflight.CRDOwnership},
		Settings: mode.Settings{Runtime: "demo", Namespace: w.options.Release.Namespace},
	})
	fixed := 0
	for _, result := range results {
		for _, finding := range result.Findings {
			if finding.Apply == nil {
				continue
			}
			must.Do(t, finding.Apply(t.Context()))
			fixed++
		}
	}
	if fixed == 0 || w.marks()["appprojects.argoproj.io"] == before["appprojects.argoproj.io"] {
		t.Fatalf("nothing was adopted: %+v", results)
	}
	must.Do(t, w.release())
	for name, want := range before {
		if got := w.marks()[name]; got != want {
			t.Errorf("%s: %s, and before it was %s", name, got, want)
		}
	}
}
