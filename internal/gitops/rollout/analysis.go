package rollout

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
	"slipway.dev/slipway/internal/gitops/analysis"
)

// Run is an AnalysisRun of a Rollout.
type Run struct {
	Name      string
	Labels    map[string]string
	Phase     v1alpha1.AnalysisPhase
	Message   string
	Terminate bool
	Created   time.Time
}

// currentRuns are the AnalysisRuns that the status names; nil for none.
type currentRuns struct{ step, background, pre, post *Run }

// The labels of AnalysisRuns, and the values of labelType.
const (
	labelType      = "rollout-type"
	labelStep      = "step-index"
	typeStep       = "Step"
	typeBackground = "Background"
	typePre        = "PrePromotion"
	typePost       = "PostPromotion"
)

// isFinished: an AnalysisRun of this phase does not change any more.
func isFinished(phase string) bool { return v1alpha1.AnalysisPhase(phase).Completed() }

// succeeded: an AnalysisRun exists and was successful.
func (r *Run) succeeded() bool { return r != nil && r.Phase == v1alpha1.AnalysisPhaseSuccessful }

// currentAnalysis finds the AnalysisRuns that the status names.
func (p *pass) currentAnalysis() {
	find := func(named *v1alpha1.RolloutAnalysisRunStatus) *Run {
		for i := range p.seen.Runs {
			if named != nil && p.seen.Runs[i].Name == named.Name {
				return &p.seen.Runs[i]
			}
		}
		return nil
	}
	p.runs = currentRuns{
		step: find(p.old.Canary.CurrentStepAnalysisRunStatus), background: find(p.old.Canary.CurrentBackgroundAnalysisRunStatus),
		pre: find(p.old.BlueGreen.PrePromotionAnalysisRunStatus), post: find(p.old.BlueGreen.PostPromotionAnalysisRunStatus),
	}
}

// analyse makes the AnalysisRuns of this moment, aborts or pauses by their results, and
// ends those that are not needed.
func (p *pass) analyse() {
	var now currentRuns
	switch {
	case p.isFullyPromoted(), p.isAborted(), p.old.PromoteFull, p.isFastRollback(), p.old.StableRS == "":
		p.terminate(p.runs.step, p.runs.background, p.runs.pre, p.runs.post)
		now.pre, now.post = p.runs.pre, p.runs.post
	case p.spec.Strategy.Canary != nil:
		now.step = p.stepAnalysis()
		now.background = p.backgroundAnalysis()
	default:
		now.pre = p.promotionAnalysis(p.spec.Strategy.BlueGreen.PrePromotionAnalysis, p.runs.pre, p.skipsPre(), "pre", typePre)
		p.judge(now.pre, "Blue/green pre-promotion analysis phase error/failed")
		now.post = p.promotionAnalysis(p.spec.Strategy.BlueGreen.PostPromotionAnalysis, p.runs.post, p.skipsPost(), "post", typePost)
		p.judge(now.post, "Blue/green post-promotion analysis phase error/failed")
	}
	p.runs = now
	status := &p.status
	status.Canary.CurrentStepAnalysisRunStatus = p.runStatus(now.step, p.old.Canary.CurrentStepAnalysisRunStatus, typeStep)
	status.Canary.CurrentBackgroundAnalysisRunStatus = p.runStatus(now.background, p.old.Canary.CurrentBackgroundAnalysisRunStatus, typeBackground)
	status.BlueGreen.PrePromotionAnalysisRunStatus = p.runStatus(now.pre, p.old.BlueGreen.PrePromotionAnalysisRunStatus, typePre)
	status.BlueGreen.PostPromotionAnalysisRunStatus = p.runStatus(now.post, p.old.BlueGreen.PostPromotionAnalysisRunStatus, typePost)
	p.endOthers(now)
}

// runStatus is the part of the status about an AnalysisRun, with an Event when its phase
// has changed.
func (p *pass) runStatus(run *Run, before *v1alpha1.RolloutAnalysisRunStatus, kind string) *v1alpha1.RolloutAnalysisRunStatus {
	if run == nil {
		return nil
	}
	phase := string(run.Phase)
	if phase != "" && (before == nil || before.Name == run.Name && before.Status != phase) {
		last := "NoPreviousStatus"
		if before != nil {
			last = before.Status
		}
		record := p.event
		if run.Phase == v1alpha1.AnalysisPhaseFailed || run.Phase == v1alpha1.AnalysisPhaseError {
			record = p.warn
		}
		record("AnalysisRun"+phase, "%s Analysis Run '%s' Status New: '%s' Previous: '%s'", kind, run.Name, phase, last)
	}
	return &v1alpha1.RolloutAnalysisRunStatus{Name: run.Name, Status: phase, Message: run.Message}
}

// judge pauses for an AnalysisRun without a result, and aborts for one that failed.
func (p *pass) judge(run *Run, failure string) {
	if run == nil {
		return
	}
	switch run.Phase {
	case v1alpha1.AnalysisPhaseInconclusive:
		p.pause.add = append(p.pause.add, v1alpha1.PauseInconclusiveAnalysis)
	case v1alpha1.AnalysisPhaseError, v1alpha1.AnalysisPhaseFailed:
		p.pause.abort, p.pause.message = true, failure
		if run.Message != "" {
			p.pause.message += ": " + run.Message
		}
	}
}

// needsRun: there is no AnalysisRun yet, or the last one belongs to an attempt that was
// aborted, or to a pause without a result that a person has ended.
func (p *pass) needsRun(run *Run) bool {
	if run == nil {
		return true
	}
	if p.old.ControllerPause && p.pausedBy(v1alpha1.PauseCanaryStep) == nil && p.pausedBy(v1alpha1.PauseBlueGreen) == nil {
		return run.Phase == v1alpha1.AnalysisPhaseInconclusive
	}
	return p.old.AbortedAt != nil
}

// stepAnalysis is the AnalysisRun of the current step.
func (p *pass) stepAnalysis() *Run {
	run := p.runs.step
	if len(p.old.PauseConditions) > 0 || p.old.Abort {
		return run
	}
	step, index := p.currentStep()
	number := strconv.FormatInt(int64(index), 10)
	if step == nil || step.Analysis == nil || len(step.Analysis.Templates) == 0 || run != nil && run.Labels[labelStep] != number {
		p.terminate(run)
		return nil
	}
	if p.needsRun(run) {
		return p.createRun(step.Analysis, number, map[string]string{labelType: typeStep, labelStep: number})
	}
	p.judge(run, "Step-based analysis phase error/failed")
	return run
}

// backgroundAnalysis is the AnalysisRun during the steps.
func (p *pass) backgroundAnalysis() *Run {
	given, run := p.spec.Strategy.Canary.Analysis, p.runs.background
	if given == nil || len(given.Templates) == 0 {
		p.terminate(run)
		return nil
	}
	_, index := p.currentStep()
	isEarly := given.StartingStep != nil && len(p.spec.Strategy.Canary.Steps) > 0 && index < *given.StartingStep
	switch {
	case p.old.CurrentPodHash == "" || isEarly:
		return nil
	case p.pausedBy(v1alpha1.PauseInconclusiveAnalysis) != nil:
		return run
	case p.needsRun(run):
		return p.createRun(&given.RolloutAnalysis, "", map[string]string{labelType: typeBackground})
	}
	p.judge(run, "Background analysis phase error/failed")
	return run
}

// promotionAnalysis is the AnalysisRun before or after the switch.
func (p *pass) promotionAnalysis(given *v1alpha1.RolloutAnalysis, run *Run, skip bool, infix, kind string) *Run {
	switch {
	case given == nil || len(given.Templates) == 0:
		p.terminate(run)
		return nil
	case skip:
		p.terminate(run)
		return run
	case p.pausedBy(v1alpha1.PauseInconclusiveAnalysis) == nil && p.needsRun(run):
		return p.createRun(given, infix, map[string]string{labelType: kind})
	}
	return run
}

// skipsPre: nothing is analysed before the switch, because there is none to come or the
// preview is not complete yet. A run that has started goes on if Pods come and go.
func (p *pass) skipsPre() bool {
	hash, active := hashOf(p.newSet), p.old.BlueGreen.ActiveSelector
	if p.old.StableRS == hash || active == "" || active == hash {
		return true
	}
	if p.runs.pre != nil {
		return false
	}
	if preview := p.spec.Strategy.BlueGreen.PreviewReplicaCount; preview != nil {
		return sizeOf(p.newSet) != *preview || availableOf(p.newSet) != *preview
	}
	return !p.isSaturated(p.newSet)
}

// skipsPost: nothing is analysed after the switch, because it has not come or the update
// is over.
func (p *pass) skipsPost() bool {
	hash := hashOf(p.newSet)
	if p.old.StableRS == hash || p.old.BlueGreen.ActiveSelector != hash {
		return true
	}
	return p.runs.post == nil && !p.isSaturated(p.newSet)
}

// stepAnalysisSucceeded: the analysis of the current step was successful.
func (p *pass) stepAnalysisSucceeded() bool { return p.runs.step.succeeded() }

// prePromotionPassed: nothing has to be analysed before the switch any more.
func (p *pass) prePromotionPassed() bool {
	return p.spec.Strategy.BlueGreen.PrePromotionAnalysis == nil || p.runs.pre.succeeded()
}

// postPromotionPassed: nothing has to be analysed after the switch any more.
func (p *pass) postPromotionPassed() bool {
	return p.spec.Strategy.BlueGreen.PostPromotionAnalysis == nil || p.runs.post.succeeded()
}

// postPromotionRuns: the previous ReplicaSet is kept for an analysis after the switch,
// unless the spec has a delay of its own.
func (p *pass) postPromotionRuns() bool {
	strategy := p.spec.Strategy.BlueGreen
	return strategy.PostPromotionAnalysis != nil && strategy.ScaleDownDelaySeconds == nil && !p.skipsPost() && !p.runs.post.succeeded()
}

// createRun creates an AnalysisRun. One with its name that has not finished was created by
// a pass that was cut off, and is taken.
func (p *pass) createRun(given *v1alpha1.RolloutAnalysis, infix string, labels map[string]string) *Run {
	run, err := p.newRun(given, infix, labels)
	if err != nil {
		p.warn(reasonAnalysisFailed, "cannot make an AnalysisRun: %v", err)
		p.again(retryInvalid)
		return nil
	}
	base := run.Name
	for i := 1; ; i++ {
		existing := p.runNamed(run.Name)
		if existing == nil {
			break
		}
		if !existing.Phase.Completed() && !existing.Terminate {
			return existing
		}
		run.Name = fmt.Sprintf("%s.%d", base, i)
	}
	p.write(Write{Resource: v1alpha1.AnalysisRunResource(), Name: run.Name, Create: run})
	return &Run{Name: run.Name, Labels: run.Labels}
}

// runNamed returns the AnalysisRun of a name; nil if there is none.
func (p *pass) runNamed(name string) *Run {
	for i := range p.seen.Runs {
		if p.seen.Runs[i].Name == name {
			return &p.seen.Runs[i]
		}
	}
	return nil
}

// newRun is the AnalysisRun of an analysis.
func (p *pass) newRun(given *v1alpha1.RolloutAnalysis, infix string, labels map[string]string) (*v1alpha1.AnalysisRun, error) {
	revision := p.rollout.Annotations[annotationRevision]
	name := p.rollout.Name + "-" + hashOf(p.newSet) + "-" + revision
	if infix != "" {
		name += "-" + infix
	}
	annotations := map[string]string{annotationRevision: revision}
	labels = maps.Clone(labels)
	labels[labelHash] = hashOf(p.newSet)
	if metadata := given.AnalysisRunMetadata; metadata != nil {
		maps.Copy(labels, metadata.Labels)
		maps.Copy(annotations, metadata.Annotations)
	}
	maps.Copy(labels, p.spec.Selector.MatchLabels)
	args, err := p.arguments(given.Args)
	if err != nil {
		return nil, err
	}
	run, err := analysis.NewRun(analysis.RunRequest{
		Namespace: p.rollout.Namespace, Name: name, Labels: labels, Annotations: annotations,
		Templates: given.Templates, Args: args, DryRun: given.DryRun, MeasurementRetention: given.MeasurementRetention,
	}, p.template)
	if err != nil {
		return nil, err
	}
	run.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(p.rollout, kindOf())}
	return run, nil
}

// template returns a template that the pass has read.
func (p *pass) template(ref v1alpha1.AnalysisTemplateRef) (*v1alpha1.AnalysisTemplateSpec, error) {
	if spec := p.seen.Templates[templateKey(ref)]; spec != nil {
		return spec, nil
	}
	kind := v1alpha1.KindAnalysisTemplate
	if ref.IsClusterScope() {
		kind = v1alpha1.KindClusterAnalysisTemplate
	}
	return nil, fmt.Errorf("%s '%s' not found", kind, ref.TemplateName)
}

// templateKey is the key of a template in Observed.
func templateKey(ref v1alpha1.AnalysisTemplateRef) string {
	if ref.IsClusterScope() {
		return "cluster/" + ref.TemplateName
	}
	return ref.TemplateName
}

// terminate ends AnalysisRuns that have not finished.
func (p *pass) terminate(runs ...*Run) {
	for _, run := range runs {
		if run != nil && !run.Terminate && !run.Phase.Completed() {
			run.Terminate = true
			p.write(Write{Resource: v1alpha1.AnalysisRunResource(), Name: run.Name, Patch: map[string]any{"spec": map[string]any{"terminate": true}}})
		}
	}
}

// endOthers ends AnalysisRuns that the status does not name, and deletes those above the
// limits or without a ReplicaSet, the oldest first.
func (p *pass) endOthers(now currentRuns) {
	limits := v1alpha1.AnalysisRunStrategy{}
	if p.spec.Analysis != nil {
		limits = *p.spec.Analysis
	}
	successful, unsuccessful := limitOf(limits.SuccessfulRunHistoryLimit), limitOf(limits.UnsuccessfulRunHistoryLimit)
	for i := range p.seen.Runs { // newest first
		run := &p.seen.Runs[i]
		if run == now.step || run == now.background || run == now.pre || run == now.post {
			continue
		}
		p.terminate(run)
		set := p.byHash(run.Labels[labelHash])
		remove := set == nil || set.DeletionTimestamp != nil
		if run.Phase == v1alpha1.AnalysisPhaseSuccessful {
			successful--
			remove = remove || successful < 0
		} else if run.Phase.Completed() {
			unsuccessful--
			remove = remove || unsuccessful < 0
		}
		if remove {
			p.write(Write{Resource: v1alpha1.AnalysisRunResource(), Name: run.Name, Delete: true})
		}
	}
}

// limitOf is the number of AnalysisRuns that are kept.
func limitOf(given *int32) int32 {
	if given == nil {
		return defaultRuns
	}
	return *given
}

// deleteRunsOf deletes the AnalysisRuns of a ReplicaSet.
func (p *pass) deleteRunsOf(set *appsv1.ReplicaSet) {
	for _, run := range p.seen.Runs {
		if run.Labels[labelHash] == hashOf(set) {
			p.write(Write{Resource: v1alpha1.AnalysisRunResource(), Name: run.Name, Delete: true})
		}
	}
}

// analysesOf are the analyses of a spec, with their paths.
func analysesOf(spec *v1alpha1.RolloutSpec) map[string]*v1alpha1.RolloutAnalysis {
	found := map[string]*v1alpha1.RolloutAnalysis{}
	if strategy := spec.Strategy.BlueGreen; strategy != nil {
		found["spec.strategy.blueGreen.prePromotionAnalysis"] = strategy.PrePromotionAnalysis
		found["spec.strategy.blueGreen.postPromotionAnalysis"] = strategy.PostPromotionAnalysis
	}
	if strategy := spec.Strategy.Canary; strategy != nil {
		if strategy.Analysis != nil {
			found["spec.strategy.canary.analysis"] = &strategy.Analysis.RolloutAnalysis
		}
		for i := range strategy.Steps {
			found[fmt.Sprintf("spec.strategy.canary.steps[%d].analysis", i)] = strategy.Steps[i].Analysis
		}
	}
	maps.DeleteFunc(found, func(_ string, one *v1alpha1.RolloutAnalysis) bool { return one == nil })
	return found
}

// invalidAnalysis checks that an AnalysisRun can be made of each analysis.
func (p *pass) invalidAnalysis() string {
	analyses := analysesOf(p.spec)
	for _, place := range slices.Sorted(maps.Keys(analyses)) {
		if _, err := p.newRun(analyses[place], "", map[string]string{}); err != nil {
			return place + ": Invalid value: " + err.Error()
		}
	}
	return ""
}
