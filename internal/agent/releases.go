package agent

import (
	"time"

	"slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/gitops/reconcile"
	"slipway.dev/slipway/internal/release"
)

// releases are the parts of releases of Deployments. Without counts of the edges
// a release waits, unless its policy does not judge.
func (a *agent) releases() *reconcile.Releases {
	return &reconcile.Releases{
		Traffic: func(_, _, _, _ string) (reconcile.ReleaseTraffic, bool) { return reconcile.ReleaseTraffic{}, false },
		NewJudge: func(v1alpha1.ReleaseGuards) reconcile.ReleaseJudge {
			return waitingJudge{}
		},
	}
}

// waitingJudge never lets a revision pass.
type waitingJudge struct{}

// Judge implements reconcile.ReleaseJudge.
func (waitingJudge) Judge(time.Time, reconcile.ReleaseTraffic) release.Judgement {
	return release.Judgement{Outcome: v1alpha1.DecisionWait, Reason: "NoCounts", Message: "waiting for counts of an edge"}
}
