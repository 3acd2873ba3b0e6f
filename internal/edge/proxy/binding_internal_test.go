package proxy

import (
	"sync/atomic"
	"testing"
	"unsafe"

	"slipway.dev/slipway/internal/route"
)

// What every request reads of a rule is one line of a cache.
func TestBindingLine(t *testing.T) {
	const line = 64
	var b binding
	if end := unsafe.Offsetof(b.unrecorded) + unsafe.Sizeof(b.unrecorded); end > line || unsafe.Sizeof(b) != 2*line {
		t.Errorf("the first part ends at %d, and all of it at %d", end, unsafe.Sizeof(b))
	}
}

// A budget is made at the first retry, and all bindings of a rule have the same.
func TestBudgetOfRule(t *testing.T) {
	of := func(name string) *binding {
		return &binding{rule: &route.Rule{ID: route.ID{Name: name}}, budget: &atomic.Pointer[budget]{}}
	}
	var all budgets
	first := of("first")
	if all.byRule.Get(first.rule.ID) != nil {
		t.Error("there is a budget before the first retry")
	}
	made := all.forRule(first)
	if made == nil || first.budget.Load() != made || all.forRule(first) != made || all.forRule(of("first")) != made || all.byRule.Get(first.rule.ID) != made {
		t.Error("bindings of one rule have several budgets")
	}
	if all.forRule(of("second")) == made {
		t.Error("two rules share a budget")
	}
}
