package traffic

import (
	"cmp"
	"maps"
	"slices"

	"slipway.dev/slipway/internal/observe/trafficreport"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// maxRevisions bounds those of one message: two of each Release.
const maxRevisions = 2 * trafficreport.MaxReleases

// revisionsOf are the counts of the revisions of Releases.
func revisionsOf(releases []trafficreport.ReleaseTraffic) map[revisionKey]trafficreport.RevisionTraffic {
	if len(releases) == 0 {
		return nil
	}
	found := make(map[revisionKey]trafficreport.RevisionTraffic, 2*len(releases))
	for i := range releases {
		release := &releases[i]
		for _, revision := range release.Revisions {
			found[revisionKey{releaseKey{release.Namespace, release.Name, release.UID}, revision.Name, revision.Hash}] = revision
		}
	}
	return found
}

// revisionSums are the counts of a revision at some edges: since it began, and in the last
// interval.
type revisionSums struct {
	total, step      trafficreport.RevisionTraffic
	requests, errors float64
}

// revisionTraffic returns the numbers of the revisions of Releases that run. A revision that
// has changed on some edges has the numbers of both.
func revisionTraffic(edges []*edgeView) []*runtimev1.RevisionTraffic {
	sums := map[revisionKey]*revisionSums{}
	for _, edge := range edges {
		for key, revision := range edge.revisions {
			key.uid, key.hash = "", ""
			sum := sums[key]
			if sum == nil {
				if len(sums) >= maxRevisions {
					continue
				}
				sum = &revisionSums{}
				sums[key] = sum
			}
			sum.total.Add(&revision)
			sum.total.Weight = revision.Weight
		}
		for key, step := range edge.revisionSteps {
			key.uid, key.hash = "", ""
			if sum := sums[key]; sum != nil && edge.seconds > 0 {
				sum.step.Add(&step)
				sum.requests += float64(step.Requests) / edge.seconds
				sum.errors += float64(step.Errors) / edge.seconds
			}
		}
	}
	keys := slices.SortedFunc(maps.Keys(sums), func(a, b revisionKey) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name), -cmp.Compare(a.revision, b.revision))
	})
	var messages []*runtimev1.RevisionTraffic
	for _, key := range keys {
		sum := sums[key]
		messages = append(messages, &runtimev1.RevisionTraffic{
			Namespace: key.namespace, Release: key.name, Revision: key.revision, Weight: sum.total.Weight,
			Numbers: &runtimev1.TrafficNumbers{
				RequestsPerSecond: sum.requests, ErrorsPerSecond: sum.errors, Requests: sum.total.Requests, Errors: sum.total.Errors,
				P50: trafficreport.Quantile(sum.step.Latency, 0.5).Seconds(), P99: trafficreport.Quantile(sum.step.Latency, 0.99).Seconds(),
			},
		})
	}
	return messages
}
