package archtest_test

import (
	"testing"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/archtest"
	"slipway.dev/slipway/internal/must"
)

// TestUnused: no exported name of internal is there for tests alone.
func TestUnused(t *testing.T) {
	report(t, must.Get(archtest.CheckUnused(archtest.HouseUnused(), archtest.HouseRules(), root))(t))
}

// The test of the test: a repository with names that are used in every way, and
// names that are not.
func TestUnusedFixtures(t *testing.T) {
	rules := archtest.UnusedRules{
		Module: "example.test/m", Below: "internal", Fixtures: []string{"internal/storetest"}, Foreign: []string{"String"},
		Exceptions: map[string]string{"internal/store.Kept": "decision 1", "internal/store.Gone": "decision 2"},
	}
	fixtures(t, "testdata/unused/*.txtar", func(t *testing.T, _, dir string) []finding.Finding {
		return must.Get(archtest.CheckUnused(rules, archtest.HouseRules(), dir))(t)
	})
}

// Every exception of the house names its decision.
func TestUnusedExceptions(t *testing.T) {
	for name, reason := range archtest.HouseUnused().Exceptions {
		if len(reason) < len("decision 0001") {
			t.Errorf("%s: reason %q", name, reason)
		}
	}
}
