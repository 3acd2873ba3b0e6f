package reconcile

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

// A condition keeps the time since when it has been so.
func TestConditionsKeepTheirTime(t *testing.T) {
	early, late := noon(), noon().Add(time.Hour)
	before := mergeConditions(nil, []v1alpha1.ApplicationCondition{condition("B", "stays"), condition("A", "goes")}, early)
	after := mergeConditions(before, []v1alpha1.ApplicationCondition{condition("B", "new"), condition("B", "stays"), condition("B", "stays")}, late)
	var got []string
	for _, one := range after {
		got = append(got, one.Type+" "+one.Message+" "+one.LastTransitionTime.Format(time.TimeOnly))
	}
	if want := []string{"B new 13:00:00", "B stays 12:00:00"}; !slices.Equal(got, want) {
		t.Errorf("the conditions are %q, want %q", got, want)
	}
	var many []v1alpha1.ApplicationCondition
	for i := range 25 {
		many = append(many, condition("A", fmt.Sprint(i)))
	}
	bounded := mergeConditions(nil, append(many, condition("B", "last")), early)
	if len(bounded) != maxConditions+2 || bounded[maxConditions].Message != "and 15 more" || bounded[maxConditions+1].Type != "B" {
		t.Errorf("of 25 conditions and one are left %+v", bounded)
	}
}
