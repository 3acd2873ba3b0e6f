package reconcile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

const (
	// maxConditions bounds the conditions of one type, and maxText one text: the
	// API server bounds a status as a whole.
	maxConditions = 10
	maxText       = 4096
)

func condition(kind, message string) v1alpha1.ApplicationCondition {
	return v1alpha1.ApplicationCondition{Type: kind, Message: cut(message)}
}

// cut shortens a text that comes from somewhere else.
func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "..."
}

// settled puts conditions into an order and gives each the time since when it
// has been so.
func settled(before, now []v1alpha1.ApplicationCondition, at time.Time) []v1alpha1.ApplicationCondition {
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
		kept[i].LastTransitionTime = second(at)
		for _, old := range before {
			if old.Type == kept[i].Type && old.Message == kept[i].Message && old.LastTransitionTime != nil {
				kept[i].LastTransitionTime = old.LastTransitionTime
			}
		}
	}
	return kept
}
