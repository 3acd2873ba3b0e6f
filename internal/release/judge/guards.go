package judge

import "time"

// Guards are the limits of a release. Fields that are zero have their default.
type Guards struct {
	// ErrorIncrease is the tolerated difference of the error rates: 0.01 is one
	// percentage point.
	ErrorIncrease float64
	// LatencyRatio is the tolerated ratio of the latencies at the same quantile, and
	// LatencyIncrease a difference that is tolerated in any case: a handler that takes
	// 0.6 ms instead of 0.3 ms is no reason for a rollback.
	LatencyRatio    float64
	LatencyIncrease time.Duration
	// MinRequests is how many requests of the canary are compared before it passes. A
	// revision that fails is reported earlier.
	MinRequests uint64
	// Alpha is the greatest probability that a revision which is like the stable one
	// fails, over all guards and looks of a release.
	Alpha float64
}

// Defaults returns the default guards.
func Defaults() Guards {
	return Guards{
		ErrorIncrease:   0.01,
		LatencyRatio:    1.5,
		LatencyIncrease: time.Millisecond,
		MinRequests:     100,
		Alpha:           0.001,
	}
}

// withDefaults returns the guards with defaults for fields that are not set.
func (g Guards) withDefaults() Guards {
	d := Defaults()
	if g.ErrorIncrease > 0 {
		d.ErrorIncrease = g.ErrorIncrease
	}
	if g.LatencyRatio > 0 {
		d.LatencyRatio = g.LatencyRatio
	}
	if g.LatencyIncrease > 0 {
		d.LatencyIncrease = g.LatencyIncrease
	}
	if g.MinRequests > 0 {
		d.MinRequests = g.MinRequests
	}
	if g.Alpha > 0 {
		d.Alpha = g.Alpha
	}
	return d
}

// The parts of Alpha. Errors get more, because they are rare events: at a small share
// each of them has to count.
const (
	alphaOfErrors  = 0.6
	alphaOfLatency = 0.4
)
