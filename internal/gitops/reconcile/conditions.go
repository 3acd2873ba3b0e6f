package reconcile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/tracking"
)

const (
	// maxConditions bounds the conditions of one type, and maxText one text: the
	// API server bounds a status as a whole.
	maxConditions = 10
	maxText       = 4096
	// maxWarning bounds one warning of a render, and maxNamed how many objects a
	// condition names.
	maxWarning = 500
	maxNamed   = 5
)

// observedConditions are the conditions that follow from what is desired and
// live: objects that are refused, warnings of the render and of the plan,
// objects that the project does not allow, or that another Application has too.
func (p *reconcileRun) observedConditions(seen *observedState) []v1alpha1.ApplicationCondition {
	if seen == nil || seen.set == nil {
		return nil
	}
	var conditions []v1alpha1.ApplicationCondition
	for _, refused := range seen.refusals() {
		conditions = append(conditions, condition(v1alpha1.ConditionComparisonError, refused.Error()))
	}
	if of := seen.of; of != nil && of.result != nil {
		for _, warning := range of.result.Warnings {
			conditions = append(conditions, condition(v1alpha1.ConditionRenderWarning, refusal.Shorten(warning, maxWarning)))
		}
	}
	for _, warning := range seen.set.Warnings {
		conditions = append(conditions, condition(warning.Code, warning.String()))
	}
	for _, text := range seen.excluded {
		conditions = append(conditions, condition(v1alpha1.ConditionExcludedResourceWarning, text))
	}
	for _, desired := range seen.set.Resources() {
		object := seen.live[desired.Key]
		if object == nil {
			continue
		}
		if owner, owned := p.tracker().OwnerOf(object); owned && owner != p.id {
			text := fmt.Sprintf("%s is part of applications %s and %s", desired.Key, p.id, owner)
			conditions = append(conditions, condition(v1alpha1.ConditionSharedResourceWarning, text))
		}
	}
	if unlabelled := seen.unlabelled(); len(unlabelled) > 0 && !p.app.Spec.SyncPolicy.IsAutomated() {
		conditions = append(conditions, condition(v1alpha1.ConditionUnlabelledResourceWarning, unlabelledText(unlabelled)))
	}
	return conditions
}

// unlabelledText names the objects that lack our label, and what follows.
func unlabelledText(unlabelled []plan.Status) string {
	names := make([]string, 0, maxNamed)
	for _, one := range unlabelled[:min(len(unlabelled), maxNamed)] {
		names = append(names, one.Key.String())
	}
	text := strings.Join(names, ", ")
	if more := len(unlabelled) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	verb := "are as desired and do not have"
	if len(unlabelled) == 1 {
		verb = "is as desired and does not have"
	}
	return fmt.Sprintf("%s %s the label %s yet: the next sync adds it; until then changes in the cluster are noticed at the polling interval only",
		text, verb, tracking.Label)
}

// condition makes a condition with a bounded message.
func condition(kind, message string) v1alpha1.ApplicationCondition {
	return v1alpha1.ApplicationCondition{Type: kind, Message: truncate(message)}
}

// truncate bounds a text that comes from elsewhere.
func truncate(text string) string { return refusal.Shorten(text, maxText) }

// mergeConditions sorts and bounds conditions, and keeps the transition time of
// those that are unchanged, so that an unchanged status is not written again.
func mergeConditions(before, now []v1alpha1.ApplicationCondition, at time.Time) []v1alpha1.ApplicationCondition {
	slices.SortStableFunc(now, func(a, b v1alpha1.ApplicationCondition) int {
		return cmp.Or(strings.Compare(a.Type, b.Type), strings.Compare(a.Message, b.Message))
	})
	now = slices.CompactFunc(now, func(a, b v1alpha1.ApplicationCondition) bool { return a.Type == b.Type && a.Message == b.Message })
	var kept []v1alpha1.ApplicationCondition
	left, of := 0, 0
	for i, one := range now {
		if of++; of <= maxConditions {
			kept = append(kept, one)
		} else {
			left++
		}
		if last := i == len(now)-1 || now[i+1].Type != one.Type; last {
			if left > 0 {
				kept = append(kept, condition(one.Type, fmt.Sprintf("and %d more", left)))
			}
			left, of = 0, 0
		}
	}
	for i := range kept {
		kept[i].LastTransitionTime = wholeSecond(at)
		for _, old := range before {
			if old.Type == kept[i].Type && old.Message == kept[i].Message && old.LastTransitionTime != nil {
				kept[i].LastTransitionTime = old.LastTransitionTime
			}
		}
	}
	return kept
}
