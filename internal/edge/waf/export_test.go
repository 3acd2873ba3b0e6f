package waf

import "slipway.dev/slipway/internal/edge/filter"

// SameRules reports whether two filters share a set of rules.
func SameRules(a, b filter.Filter) bool { return a.(*inspector).set == b.(*inspector).set }
