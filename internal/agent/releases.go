package agent

import (
	"time"

	"slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/agent/traffic"
	"slipway.dev/slipway/internal/gitops/reconcile"
	"slipway.dev/slipway/internal/observe/trafficreport"
	"slipway.dev/slipway/internal/release"
	"slipway.dev/slipway/internal/release/judge"
)

// releasesBy are the parts of releases of Deployments: the counts of the edges,
// and the judge that compares them.
func releasesBy(counts *traffic.ReleaseCounts) *reconcile.Releases {
	return &reconcile.Releases{
		Traffic: func(namespace, name, stable, canary string) (reconcile.ReleaseTraffic, bool) {
			ofStable, ofCanary, reported := counts.Traffic(namespace, name, stable, canary)
			return reconcile.ReleaseTraffic{Stable: trafficOf(&ofStable), Canary: trafficOf(&ofCanary)}, reported
		},
		Quantiles: quantilesOf,
		NewJudge:  newReleaseJudge,
	}
}

// trafficOf converts the counts of a revision.
func trafficOf(counts *traffic.RevisionCounts) reconcile.RevisionTraffic {
	return reconcile.RevisionTraffic{
		Started: int64(counts.Started), Requests: int64(counts.Requests), Errors: int64(counts.Errors), Latency: counts.Latency,
	}
}

// quantilesOf are those that the status of a Release has.
func quantilesOf(latency []uint64) (p50, p99 time.Duration) {
	spread := make([]uint32, len(latency))
	for i, n := range latency {
		spread[i] = uint32(n)
	}
	return trafficreport.Quantile(spread, 0.5), trafficreport.Quantile(spread, 0.99)
}

// releaseJudge compares the revisions of a release by the counts of the edges.
type releaseJudge struct{ judge *judge.Judge }

// newReleaseJudge makes the judge of a canary.
func newReleaseJudge(guards v1alpha1.ReleaseGuards, state []byte) reconcile.ReleaseJudge {
	ends := make([]time.Duration, trafficreport.Buckets-1)
	for i := range ends {
		ends[i] = trafficreport.BucketEnd(i)
	}
	made := judge.New(judge.Guards{
		ErrorIncrease: float64(guards.ErrorPoints) / 100, LatencyRatio: float64(guards.LatencyPercent) / 100,
		LatencyIncrease: time.Duration(guards.LatencyIncrease), MinRequests: uint64(max(guards.MinRequests, 0)),
	}, ends)
	if len(state) > 0 {
		_ = made.Restore(state) // it begins from nothing otherwise
	}
	return &releaseJudge{made}
}

// State implements reconcile.ReleaseJudge.
func (j *releaseJudge) State() []byte {
	state, err := j.judge.State()
	if err != nil {
		return nil
	}
	return state
}

// Judge implements reconcile.ReleaseJudge.
func (j *releaseJudge) Judge(at time.Time, traffic reconcile.ReleaseTraffic) release.Judgement {
	decided := j.judge.Observe(at, sampleOf(&traffic.Stable), sampleOf(&traffic.Canary))
	return release.Judgement{Outcome: string(decided.Outcome), Reason: decided.Reason, Message: decided.Message}
}

// sampleOf are the counts of a revision in the terms of the judge.
func sampleOf(traffic *reconcile.RevisionTraffic) judge.Sample {
	return judge.Sample{Requests: uint64(traffic.Requests), Errors: uint64(traffic.Errors), Latency: traffic.Latency}
}
