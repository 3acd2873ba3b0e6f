package route_test

import (
	"testing"

	"slipway.dev/slipway/internal/route"
)

// TestSelect: a request selects a revision by its name, by the value of the match, or by at least seven characters of its
// commit.
func TestSelect(t *testing.T) {
	release := &route.Release{
		Stable: route.RevisionShare{Commit: "aaaaaaaaaabbbbbbbbbb"}, Canary: route.RevisionShare{Commit: "cccccccccc"},
	}
	for value, want := range map[string]route.Revision{
		"": "", "canary": route.RevisionCanary, "stable": route.RevisionStable, "other": "",
		"ccccccc": route.RevisionCanary, "aaaaaaa": route.RevisionStable, "cccccc": "", "cccccccd": "", "ddddddddd": "",
	} {
		if got := release.Select(&route.ReleaseMatch{}, value); got != want {
			t.Errorf("%q selects %q", value, got)
		}
	}
	named := &route.ReleaseMatch{Value: "preview"}
	for value, want := range map[string]route.Revision{"preview": route.RevisionCanary, "canary": "", "": ""} {
		if got := release.Select(named, value); got != want {
			t.Errorf("%q selects %q", value, got)
		}
	}
}
