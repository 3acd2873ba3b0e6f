package health

import (
	"fmt"
	"slices"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

// Code is the health of an object.
type Code = v1alpha1.HealthCode

// Status is the health of an object, and why.
type Status struct {
	Code    Code
	Message string
}

// codes lists all codes, the best first.
func codes() []Code {
	return []Code{
		v1alpha1.Healthy, v1alpha1.Suspended, v1alpha1.Progressing, v1alpha1.Missing, v1alpha1.Degraded, v1alpha1.Unknown,
	}
}

// Worse reports whether the first code is worse than the second. An unknown
// code is as bad as Unknown.
func Worse(first, second Code) bool { return rank(first) > rank(second) }

// rank is the position of a code in the order.
func rank(code Code) int {
	all := codes()
	if at := slices.Index(all, code); at >= 0 {
		return at
	}
	return len(all) - 1
}

// known reports whether a code is defined.
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

// status returns a Status with a bounded message.
func status(code Code, format string, args ...any) *Status {
	return &Status{Code: code, Message: shortened(fmt.Sprintf(format, args...))}
}
