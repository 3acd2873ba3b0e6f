package rollout

import (
	"slipway.dev/slipway/api/rollouts/v1alpha1"
)

// Run is an AnalysisRun of a Rollout.
type Run struct {
	Name           string
	Phase, Message string
}

// currentRuns are the AnalysisRuns that the status names.
type currentRuns struct{ step, background, pre, post *Run }

// isFinished: an AnalysisRun of this phase does not change any more.
func isFinished(phase string) bool { return v1alpha1.AnalysisPhase(phase).Completed() }

// currentAnalysis finds the AnalysisRuns that the status names.
func (p *pass) currentAnalysis() {}

// analyse makes and judges AnalysisRuns.
func (p *pass) analyse() {}

// stepAnalysisSucceeded: the analysis of the current step was successful.
func (p *pass) stepAnalysisSucceeded() bool { return false }

// prePromotionPassed: nothing has to be analysed before the switch any more.
func (p *pass) prePromotionPassed() bool { return true }

// postPromotionPassed: nothing has to be analysed after the switch any more.
func (p *pass) postPromotionPassed() bool { return true }

// postPromotionRuns: the previous ReplicaSet is kept for an analysis after the switch.
func (p *pass) postPromotionRuns() bool { return false }

// deleteRunsOf deletes the AnalysisRuns of a ReplicaSet.
func (p *pass) deleteRunsOf(string) {}

// invalidAnalysis checks the analyses.
func (p *pass) invalidAnalysis() string {
	const reason = ": it is not supported: AnalysisRuns are not made"
	strategy := p.spec.Strategy
	if strategy.BlueGreen != nil && strategy.BlueGreen.PrePromotionAnalysis != nil {
		return "spec.strategy.blueGreen.prePromotionAnalysis" + reason
	}
	if strategy.BlueGreen != nil && strategy.BlueGreen.PostPromotionAnalysis != nil {
		return "spec.strategy.blueGreen.postPromotionAnalysis" + reason
	}
	if strategy.Canary == nil {
		return ""
	}
	if strategy.Canary.Analysis != nil {
		return "spec.strategy.canary.analysis" + reason
	}
	for i := range strategy.Canary.Steps {
		if strategy.Canary.Steps[i].Analysis != nil {
			return "spec.strategy.canary.steps[" + string(rune('0'+i%10)) + "].analysis" + reason
		}
	}
	return ""
}
