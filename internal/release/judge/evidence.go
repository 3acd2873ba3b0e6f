package judge

import "math"

// Evidence is an amount that a fair game could win. It starts with 1, and each slice
// multiplies it by a factor whose expected value is at most 1 as long as the revisions
// are alike. So the probability that it ever reaches 1/a is at most a, over all looks
// (Ville's inequality). A worse canary makes it grow.
//
// Each guard divides its amount between two ways to play. The bold one is for a canary
// that is bad from the beginning: it needs few slices. The careful one is for a canary
// that becomes bad, at any time. A Pod may be slow or broken for some seconds, and all its
// slices are bad then, so the careful way needs many of them.
const (
	// boldPart is the part of the amount for the bold way.
	boldPart = 0.7
	// maxEvidence bounds the evidence of a difference that is tolerated, so that it can
	// shrink again.
	maxEvidence = 1e12
)

// bold is a bet from the first slice on.
type bold struct{ amount float64 }

// play multiplies by the factor of a slice, whose number is counted from 1.
func (b *bold) play(number int, factor float64) {
	if number == 1 {
		b.amount = 1
	}
	b.amount = min(b.amount*factor, maxEvidence)
}

// careful is a bet that keeps a part of its amount back for each later slice: evidence
// that a good beginning used up does not hide what follows.
type careful struct{ amount float64 }

// maxCarefulFactor bounds what one slice can add to a careful bet.
const maxCarefulFactor = 2

// play bets half of the amount on a slice: on the part of what was seen in the canary to
// exceed the part that is expected if the revisions are alike. What is seen together in
// one slice may have one cause. So the slice is one bet, and not each request in it.
func (c *careful) play(number int, seen, expected float64) {
	factor := 1 + 0.5*(seen/expected-1)
	c.amount = min((c.amount+stake(number))*min(factor, maxCarefulFactor), maxEvidence)
}

// stake returns the part of the amount that is at stake from a slice on. All parts
// together are 1.
func stake(number int) float64 {
	kept := func(number int) float64 { return 1 / (1 + math.Log(float64(number))) }
	return kept(number) - kept(number+1)
}

// odds are the bold alternatives for errors: how much more likely an error is in the
// canary than in the stable revision. Large ones find a canary with errors beside a clean
// revision after a few of them, small ones a difference between two high rates. What one
// slice can add is bounded by most: a Pod that fails for a second has many errors.
var odds = [...]struct{ ratio, weight, most float64 }{{1.5, 0.1, 1.5}, {3, 0.1, 3}, {12, 0.4, 100}, {100, 0.4, 100}}

// minErrorSlices is in how many slices the canary must have had errors. A burst that is
// shorter is no reason for a rollback.
const minErrorSlices = 3

// errorEvidence compares error rates. Given the errors of a slice, each of them is in
// the canary with the probability of its share of the requests if the rates are equal.
// The rate itself does not matter.
type errorEvidence struct {
	bold    [len(odds)]bold
	careful careful
	bad     int // slices in which the canary had errors
}

// add plays the slice with a number.
func (e *errorEvidence) add(number int, s *slice) {
	share := float64(s.canary.Requests) / float64(s.canary.Requests+s.stable.Requests)
	canary, both := float64(s.canary.Errors), float64(s.canary.Errors+s.stable.Errors)
	for i, o := range odds {
		// Each error multiplies by the ratio of its probabilities.
		factor := math.Exp(canary*math.Log(o.ratio) - both*math.Log(1-share+o.ratio*share))
		e.bold[i].play(number, min(factor, o.most))
	}
	seen := share // without errors there is nothing to win or lose
	if both > 0 {
		seen = canary / both
	}
	e.careful.play(number, seen, share)
	if canary > 0 {
		e.bad++
	}
}

// amount returns the evidence.
func (e *errorEvidence) amount() float64 {
	if e.bad < minErrorSlices {
		return 0
	}
	sum := (1 - boldPart) * e.careful.amount
	for i, o := range odds {
		sum += boldPart * o.weight * e.bold[i].amount
	}
	return sum
}

// levels are the quantiles at which latencies are compared. The high ones find a slower
// canary fastest, the low ones find it beside rare requests that take far longer.
var levels = [...]float64{0.5, 0.75, 0.95, 0.99}

const (
	// maxLatencyFactor bounds what one slice can add to a bold bet: a canary is slow for
	// seven slices at least before it fails.
	maxLatencyFactor = 4
	// boldSlices is how many slices the bold bets are for. Many requests give factors
	// near 1, so that these bets would not end by themselves.
	boldSlices = 15
)

// latencyEvidence compares latencies. A request of the canary takes longer than the
// k-th slowest of n requests of the stable revision with probability k/(n+1) if they are
// alike. The part of the canary's requests that do is compared with it.
type latencyEvidence struct {
	bold    [len(levels)]bold
	careful [len(levels)]careful
}

// add plays the slice with a number.
func (e *latencyEvidence) add(number int, s *slice) {
	n, canary := s.stable.Latency.total(), s.canary.Latency.total()
	if n == 0 || canary == 0 {
		return
	}
	for i, level := range levels {
		slowest := max(1, uint64((1-level)*float64(n+1)))
		expected := float64(slowest) / float64(n+1)
		seen := float64(s.canary.Latency.above(s.stable.Latency.bucketOf(slowest))) / float64(canary)
		factor := min(1+0.5*(seen/expected-1), maxLatencyFactor)
		if number > boldSlices {
			factor = 0
		}
		e.bold[i].play(number, factor)
		e.careful[i].play(number, seen, expected)
	}
}

// at returns the evidence at a level.
func (e *latencyEvidence) at(i int) float64 {
	return (boldPart*e.bold[i].amount + (1-boldPart)*e.careful[i].amount) / float64(len(levels))
}

// amount returns the evidence at the levels that are not tolerated.
func (e *latencyEvidence) amount(tolerated func(level float64) bool) (sum float64) {
	for i, level := range levels {
		if !tolerated(level) {
			sum += e.at(i)
		}
	}
	return sum
}

// worst returns the level with the most evidence among those that are not tolerated.
func (e *latencyEvidence) worst(tolerated func(level float64) bool) (worst float64) {
	most := -1.0
	for i, level := range levels {
		if e.at(i) > most && !tolerated(level) {
			most, worst = e.at(i), level
		}
	}
	return worst
}

// bucketOf returns the bucket of the k-th slowest request.
func (h Histogram) bucketOf(slowest uint64) int {
	for i := len(h) - 1; i > 0; i-- {
		if h[i] >= slowest {
			return i
		}
		slowest -= h[i]
	}
	return 0
}
