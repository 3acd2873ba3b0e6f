package gateway

import (
	"strings"

	"slipway.dev/slipway/internal/route"
)

// covers reports whether a host name includes another one. An empty one includes all,
// and a wildcard stands for one or more labels.
func covers(wide, narrow string) bool {
	if wide == "" || wide == narrow {
		return true
	}
	// Of a narrower wildcard the star stands for a label, as any name does.
	parent, wildcard := route.WildcardParent(wide)
	return wildcard && strings.HasSuffix(narrow, "."+parent)
}

// Intersect returns the host name that two have in common; empty ones have all.
func Intersect(a, b string) (string, bool) {
	switch {
	case covers(a, b):
		return b, true
	case covers(b, a):
		return a, true
	default:
		return "", false
	}
}
