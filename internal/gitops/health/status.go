package health

import (
	"fmt"
	"slices"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

// Code says how an object is.
type Code = v1alpha1.HealthCode

// Status is how an object is, and why.
type Status struct {
	Code    Code
	Message string
}

// codes are those that there are, the best first.
func codes() []Code {
	return []Code{
		v1alpha1.Healthy, v1alpha1.Suspended, v1alpha1.Progressing, v1alpha1.Missing, v1alpha1.Degraded, v1alpha1.Unknown,
	}
}

// Worse reports whether the first is worse than the second. A code that nobody
// knows is as bad as Unknown.
func Worse(first, second Code) bool { return rank(first) > rank(second) }

// Worst is the worst of some codes, and Healthy of none.
func Worst(of ...Code) Code {
	worst := v1alpha1.Healthy
	for _, code := range of {
		if Worse(code, worst) {
			worst = code
		}
	}
	return worst
}

func rank(code Code) int {
	all := codes()
	if at := slices.Index(all, code); at >= 0 {
		return at
	}
	return len(all) - 1
}

func known(code Code) bool { return slices.Contains(codes(), code) }

func healthy(format string, args ...any) *Status { return status(v1alpha1.Healthy, format, args...) }
func suspended(format string, args ...any) *Status {
	return status(v1alpha1.Suspended, format, args...)
}
func degraded(format string, args ...any) *Status { return status(v1alpha1.Degraded, format, args...) }
func unknown(format string, args ...any) *Status  { return status(v1alpha1.Unknown, format, args...) }
func progressing(format string, args ...any) *Status {
	return status(v1alpha1.Progressing, format, args...)
}

func status(code Code, format string, args ...any) *Status {
	return &Status{Code: code, Message: shortened(fmt.Sprintf(format, args...))}
}
