package judge

import "time"

// Outcome is what follows for a canary.
type Outcome string

// The outcomes. Fail is final, the others change with further looks.
const (
	Wait Outcome = "Wait"
	Pass Outcome = "Pass"
	Fail Outcome = "Fail"
)

// The reasons of outcomes.
const (
	// ReasonErrorRate and ReasonLatency are those of Fail.
	ReasonErrorRate = "ErrorRate"
	ReasonLatency   = "Latency"
	// ReasonRequests means that too few requests were compared, and ReasonSuspicious
	// that the canary seems worse and may yet fail.
	ReasonRequests   = "WaitingForRequests"
	ReasonSuspicious = "Suspicious"
	// ReasonNotWorse is that of Pass.
	ReasonNotWorse = "NotWorse"
)

const (
	// passSlices is the least number of slices before a canary passes.
	passSlices = 5
	// suspicious is the value of P at which a canary does not pass any more. One of 20
	// good ones waits longer for it, at some time.
	suspicious = 0.05
)

// Decision is a decision with its reason and numbers.
type Decision struct {
	Outcome Outcome
	Reason  string // in CamelCase, for conditions
	Message string // for people
	// P bounds the probability that a revision like the stable one would have looked as
	// bad at any time of the release. A canary fails when it reaches Alpha.
	P float64
	// Stable and Canary are the revisions in the last slices, over Span.
	Stable, Canary Figures
	Span           time.Duration
}

// Figures are the numbers of a revision.
type Figures struct {
	Requests, Errors uint64
	ErrorRate        float64
	P50, P95, P99    time.Duration
}

// Judge follows one release. It is not safe for concurrent use. A judge that is made
// again in the middle of a release continues with the state of the one before.
type Judge struct {
	guards Guards
	bounds []time.Duration

	open     slice // since the last slice that was compared
	observed bool

	slices   int    // that were compared
	compared uint64 // requests of the canary in them
	window   window
	errors   errorEvidence
	latency  latencyEvidence
	decision Decision // of the slices so far
}

// New returns a judge. Bounds are the upper ends of the buckets of histograms, in
// ascending order; a last bucket has all longer requests.
func New(guards Guards, bounds []time.Duration) *Judge {
	j := &Judge{guards: guards.withDefaults(), bounds: bounds}
	j.decision = j.decide()
	return j
}

// Observe takes the counts of both revisions at a time and returns what follows from all
// of them so far. The first call sets the counts to begin with. Call it about once a
// second: looks that follow faster are taken together, and slower ones delay a Fail,
// because the evidence of one look is bounded. Without requests of both revisions there
// is nothing to compare, and it waits.
func (j *Judge) Observe(at time.Time, stable, canary Sample) Decision {
	if j.decision.Outcome != Fail && j.advance(at, stable, canary) {
		j.compare()
		j.decision = j.decide()
	}
	return j.decision
}

// advance reports whether the open slice is complete, and closes it in that case.
func (j *Judge) advance(at time.Time, stable, canary Sample) bool {
	next := slice{begin: at, stable: stable.clone(), canary: canary.clone()}
	if !j.observed {
		j.open, j.observed = next, true
		return false
	}
	closed := slice{begin: j.open.begin, end: at}
	var ok, both bool
	closed.stable, ok = stable.since(j.open.stable)
	closed.canary, both = canary.since(j.open.canary)
	if !ok || !both {
		// Counts were lost, so the difference is not that of a slice.
		j.open = next
		return false
	}
	if !closed.comparable() {
		return false
	}
	j.open = next
	j.window = j.window.push(closed)
	return true
}

// compare adds the evidence of the last slice.
func (j *Judge) compare() {
	last := &j.window[len(j.window)-1]
	j.slices++
	j.compared += last.canary.Requests
	j.errors.add(j.slices, last)
	j.latency.add(j.slices, last)
}

// decide returns the decision of the evidence so far.
func (j *Judge) decide() Decision {
	c := j.comparison()
	d := Decision{P: 1, Stable: c.figures(&c.stable, c.stableLatency), Canary: c.figures(&c.canary, c.canaryLatency), Span: j.window.span()}
	var worse string // the message about the guard with the least P
	if j.window.errorIncrease() > j.guards.ErrorIncrease {
		if p := bound(j.errors.amount(), alphaOfErrors); p < d.P {
			d.P, d.Reason, worse = p, ReasonErrorRate, errorMessage(d)
		}
	}
	if p := bound(j.latency.amount(c.tolerated), alphaOfLatency); p < d.P {
		d.P, d.Reason, worse = p, ReasonLatency, c.latencyMessage(j.latency.worst(c.tolerated))
	}
	if j.slices > len(j.window) && worse != "" {
		worse += " in the last " + duration(d.Span)
	}
	switch {
	case d.P <= j.guards.Alpha:
		d.Outcome, d.Message = Fail, worse
	case j.compared < j.guards.MinRequests || j.slices < passSlices:
		d.Outcome, d.Reason, d.Message = Wait, ReasonRequests, waitMessage(j.compared, j.guards.MinRequests)
	case d.P <= suspicious:
		d.Outcome, d.Reason, d.Message = Wait, ReasonSuspicious, "seems worse: "+worse
	default:
		d.Outcome, d.Reason, d.Message = Pass, ReasonNotWorse, errorMessage(d)
	}
	return d
}

// bound returns the probability that evidence of a guard with a part of Alpha is reached
// by chance.
func bound(amount, part float64) float64 {
	if amount*part <= 1 {
		return 1
	}
	return 1 / (amount * part)
}

// comparison is the window as it is compared with the guards.
type comparison struct {
	guards                       Guards
	bounds                       []time.Duration
	stable, canary               Sample
	stableLatency, canaryLatency weighted
}

// comparison returns that of the last slices.
func (j *Judge) comparison() *comparison {
	c := &comparison{guards: j.guards, bounds: j.bounds}
	c.stable, c.canary = j.window.sums()
	c.stableLatency, c.canaryLatency = j.window.latencies()
	return c
}

// figures returns the numbers of a revision.
func (c *comparison) figures(s *Sample, latency weighted) Figures {
	f := Figures{Requests: s.Requests, Errors: s.Errors}
	if s.Requests > 0 {
		f.ErrorRate = float64(s.Errors) / float64(s.Requests)
	}
	f.P50, f.P95, f.P99 = latency.quantile(0.5, c.bounds), latency.quantile(0.95, c.bounds), latency.quantile(0.99, c.bounds)
	return f
}

// tolerated reports whether the canary is within the guards at a level.
func (c *comparison) tolerated(level float64) bool {
	stable, canary := c.stableLatency.quantile(level, c.bounds), c.canaryLatency.quantile(level, c.bounds)
	return float64(canary) < c.guards.LatencyRatio*float64(stable) || canary-stable < c.guards.LatencyIncrease
}

// latencyMessage describes the latencies at a level.
func (c *comparison) latencyMessage(level float64) string {
	return quantileMessage(level, c.canaryLatency.quantile(level, c.bounds), c.stableLatency.quantile(level, c.bounds), c.canary.Requests)
}
