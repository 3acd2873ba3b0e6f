package traffic

import (
	"slices"
	"testing"
	"time"

	"slipway.dev/slipway/internal/observe/trafficreport"
)

// releaseReport is a report of a run with counts of the canary.
func releaseReport(started time.Time, uid string, requests, failed uint64, latency ...uint32) *trafficreport.ReleaseReport {
	return &trafficreport.ReleaseReport{Started: started, Releases: []trafficreport.ReleaseTraffic{{
		Namespace: "shop", Name: "web", UID: uid, Revisions: []trafficreport.RevisionTraffic{
			{Name: "stable", Hash: "a", Requests: 10 * requests}, {Name: "canary", Hash: "b", Requests: requests, Errors: failed, Latency: latency},
		},
	}}}
}

// TestReleaseSums: the sums are those of all edges, whatever restarts and goes, and do not
// depend on when they were read.
func TestReleaseSums(t *testing.T) {
	c := NewReleaseCounts(Options{})
	now := time.Now()
	first, second := &edgeRun{}, &edgeRun{}
	if _, _, reported := c.Traffic("shop", "web", "a", "b"); reported {
		t.Error("reported by no edge")
	}
	c.add(first, releaseReport(now, "u", 5, 1, 0, 4), now)
	c.add(first, releaseReport(now, "u", 8, 2, 1, 5), now)
	c.add(second, releaseReport(now, "u", 100, 0, 7), now)
	// The first one restarts, and its counts with it.
	c.add(first, releaseReport(now.Add(time.Minute), "u", 2, 1, 0, 1), now)
	stable, canary, reported := c.Traffic("shop", "web", "a", "b")
	if !reported || stable.Requests != 1100 || canary.Requests != 110 || canary.Errors != 3 || !slices.Equal(canary.Latency, []uint64{8, 6}) {
		t.Errorf("%+v %+v", stable, canary)
	}
	canary.Latency[0] = 0 // a copy
	if _, again, _ := c.Traffic("shop", "web", "a", "b"); again.Latency[0] != 8 {
		t.Error("the histogram is shared")
	}
	// A histogram of an edge wraps around.
	c.add(second, releaseReport(now, "u", 101, 0, 1<<32-1), now)
	c.add(second, releaseReport(now, "u", 105, 0, 3), now)
	if _, wrapped, _ := c.Traffic("shop", "web", "a", "b"); wrapped.Latency[0] != 8+(1<<32-1-7)+4 {
		t.Errorf("%d", wrapped.Latency[0])
	}
	// Another object of the name begins at 0, and the ended one does not come back.
	next := releaseReport(now, "v", 1, 0)
	ended := releaseReport(now, "u", 105, 0).Releases[0]
	ended.Ended = true
	next.Releases = append(next.Releases, ended)
	c.add(second, next, now)
	if _, canary, _ := c.Traffic("shop", "web", "a", "b"); canary.Requests != 1 {
		t.Errorf("%+v", canary)
	}
	c.forget(now.Add(releaseRetention + time.Minute))
	if _, _, reported := c.Traffic("shop", "web", "a", "b"); reported || len(c.sums) != 0 {
		t.Error("sums are kept for ever")
	}
}
