package bridge

import "time"

// ResetLimits bound how many of its own streams a client may reset. Opening streams
// and resetting them costs a client nothing and the edge the work of a request each
// (CVE-2023-44487). The numbers are Envoy's.
type ResetLimits struct {
	// Early is how many streams may be reset before Streams were opened.
	// Default 250.
	Early int
	// Streams is the number from which on the share counts. Default 500. It is also
	// about the length of the window.
	Streams int
	// Percent is the share of reset streams that is too much. Default 50.
	Percent int
	// Lifetime is the age from which on a reset does not count: cancelling a long
	// call, or a watch, is normal use. Default 1 s.
	Lifetime time.Duration
}

// DefaultResetLimits are safe for an edge that faces the internet.
func DefaultResetLimits() ResetLimits {
	return ResetLimits{Early: 250, Streams: 500, Percent: 50, Lifetime: time.Second}
}

// Resets counts the streams of one connection. It is not safe for concurrent use.
type Resets struct {
	Limits ResetLimits

	opened, cut int
}

// Opened counts a stream.
func (r *Resets) Opened() {
	if r.opened++; r.opened >= 2*r.Limits.Streams {
		// Halving both makes the window slide: old streams count less and less.
		r.opened, r.cut = r.opened/2, r.cut/2
	}
}

// Cut counts a stream that was reset before its response, at an age. It reports
// whether those are too many now.
func (r *Resets) Cut(age time.Duration) (tooMany bool) {
	if age >= r.Limits.Lifetime {
		return false
	}
	r.cut++
	if r.opened < r.Limits.Streams {
		return r.cut >= r.Limits.Early
	}
	return r.cut*100 >= r.opened*r.Limits.Percent
}
