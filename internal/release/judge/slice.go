package judge

import "time"

// A slice has the requests between two looks. Requests of one second often share their
// fate: a pause of the garbage collector, a lost connection, a client with a loop. So
// slices and not requests are the unit of evidence, and what one slice can add is bounded.
const (
	// sliceLength is the least length of a slice. It is below a second, so that a timer of
	// a second that jitters gives one slice for each look.
	sliceLength = 800 * time.Millisecond
	// sliceRequests is the least number of requests of each revision in a slice. With
	// less traffic a slice is longer.
	sliceRequests = 5
	// windowSlices is how many of the last slices are the present: a revision fails only
	// if it is worse in them by more than the tolerance.
	windowSlices = 30
)

// slice is the comparison of a moment.
type slice struct {
	begin, end     time.Time
	stable, canary Sample
}

// comparable reports whether the slice has enough of both revisions.
func (s *slice) comparable() bool {
	return s.end.Sub(s.begin) >= sliceLength && s.stable.Requests >= sliceRequests && s.canary.Requests >= sliceRequests
}

// window has the last slices.
type window []slice

// push adds a slice and forgets the oldest one beyond the bound.
func (w window) push(s slice) window {
	if len(w) >= windowSlices {
		copy(w, w[1:])
		w = w[:windowSlices-1]
	}
	return append(w, s)
}

// span is the time from the begin of the first slice to the end of the last.
func (w window) span() time.Duration {
	if len(w) == 0 {
		return 0
	}
	return w[len(w)-1].end.Sub(w[0].begin)
}

// sums returns the counts of both revisions.
func (w window) sums() (stable, canary Sample) {
	for i := range w {
		stable.Add(w[i].stable)
		canary.Add(w[i].canary)
	}
	return stable, canary
}

// errorIncrease is the error rate of the canary minus the one that the stable revision
// would have had with the canary's requests: slice by slice, because shares and the
// errors that both have change with time.
func (w window) errorIncrease() float64 {
	var requests, excess float64
	for i := range w {
		stable, canary := &w[i].stable, &w[i].canary
		n := float64(canary.Requests)
		requests += n
		excess += float64(canary.Errors) - n*float64(stable.Errors)/float64(stable.Requests)
	}
	if requests == 0 {
		return 0
	}
	return excess / requests
}

// latencies returns the histogram of the canary, and that of the stable revision with
// each slice weighted as if it had the canary's number of requests.
func (w window) latencies() (stable, canary weighted) {
	for i := range w {
		s, c := &w[i].stable, &w[i].canary
		canary = canary.add(c.Latency, 1)
		if n := s.Latency.total(); n > 0 {
			stable = stable.add(s.Latency, float64(c.Latency.total())/float64(n))
		}
	}
	return stable, canary
}
