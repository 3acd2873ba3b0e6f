package bridge

import "time"

// ResetLimits say when a client cuts off too many of its own streams. Opening
// streams and resetting them costs a client nothing and the edge the work of a
// request each (CVE-2023-44487). The numbers are Envoy's.
type ResetLimits struct {
	// Early is how many streams may be cut off before Streams were opened.
	// Default 250.
	Early int
	// Streams is how many make a share worth judging. Default 500. It is also
	// about how far back the share looks.
	Streams int
	// Percent is the share of streams cut off that is too much. Default 50.
	Percent int
	// Lifetime is the age at which a stream may be cut off without counting:
	// who cancels a long call, or a watch, has got something from it. Default
	// 1 s.
	Lifetime time.Duration
}

// DefaultResetLimits are safe for an edge that faces the internet.
func DefaultResetLimits() ResetLimits {
	return ResetLimits{Early: 250, Streams: 500, Percent: 50, Lifetime: time.Second}
}

// Resets counts the streams of one connection. It is for one goroutine at a
// time.
type Resets struct {
	Limits ResetLimits

	opened, cut int
}

// Opened counts a stream.
func (r *Resets) Opened() {
	if r.opened++; r.opened >= 2*r.Limits.Streams {
		// A long good past is no licence.
		r.opened, r.cut = r.opened/2, r.cut/2
	}
}

// Cut counts a stream that ended before its answer, after it had lasted for
// age. It reports whether those are too many now.
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
