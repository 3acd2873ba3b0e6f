package judge

import (
	"slices"
	"time"
)

// Sample has the counts of one revision since a release began, summed over all edges.
type Sample struct {
	Requests uint64 `json:"requests,omitempty"`
	// Errors are the requests that failed: status 5xx, no response, and the gRPC
	// statuses that stand for a failure of the server.
	Errors  uint64    `json:"errors,omitempty"`
	Latency Histogram `json:"latency,omitempty"`
}

// Histogram has the number of requests by latency, in the buckets of the judge. Empty
// buckets at the end may be left out.
type Histogram []uint64

// Add adds the counts of another edge.
func (s *Sample) Add(other Sample) {
	s.Requests += other.Requests
	s.Errors += other.Errors
	if missing := len(other.Latency) - len(s.Latency); missing > 0 {
		s.Latency = append(s.Latency, make(Histogram, missing)...)
	}
	for i, n := range other.Latency {
		s.Latency[i] += n
	}
}

// since returns the difference to an earlier sample. It is not valid if a count became
// smaller: an edge started again, and its counts before that are lost.
func (s Sample) since(earlier Sample) (Sample, bool) {
	if s.Requests < earlier.Requests || s.Errors < earlier.Errors || len(s.Latency) < len(earlier.Latency) {
		return Sample{}, false
	}
	out := Sample{Requests: s.Requests - earlier.Requests, Errors: s.Errors - earlier.Errors, Latency: slices.Clone(s.Latency)}
	for i, n := range earlier.Latency {
		if out.Latency[i] < n {
			return Sample{}, false
		}
		out.Latency[i] -= n
	}
	// Counters of an edge are not read at one moment.
	out.Errors = min(out.Errors, out.Requests)
	return out, true
}

// clone returns a copy that shares nothing with the caller.
func (s Sample) clone() Sample {
	s.Latency = slices.Clone(s.Latency)
	return s
}

// total returns the number of requests in a histogram.
func (h Histogram) total() (sum uint64) {
	for _, n := range h {
		sum += n
	}
	return sum
}

// above returns the number of requests in the buckets after one.
func (h Histogram) above(bucket int) (sum uint64) {
	for i := bucket + 1; i < len(h); i++ {
		sum += h[i]
	}
	return sum
}

// weighted is a histogram whose requests have weights.
type weighted []float64

// add adds a histogram with a weight for each of its requests.
func (w weighted) add(h Histogram, weight float64) weighted {
	if missing := len(h) - len(w); missing > 0 {
		w = append(w, make(weighted, missing)...)
	}
	for i, n := range h {
		w[i] += weight * float64(n)
	}
	return w
}

// quantile returns the latency that a part of the requests does not exceed, and 0
// without requests. Bounds are the upper ends of the buckets; within a bucket, requests
// are taken as evenly spread. The last bucket has no end, so its begin is returned.
func (w weighted) quantile(part float64, bounds []time.Duration) time.Duration {
	var total float64
	for _, n := range w {
		total += n
	}
	if len(bounds) == 0 {
		return 0
	}
	wanted, below := part*total, 0.0
	for i, n := range w {
		if n == 0 || below+n < wanted {
			below += n
			continue
		}
		var begin time.Duration
		if i > 0 {
			begin = bounds[min(i, len(bounds))-1]
		}
		if i >= len(bounds) {
			return begin
		}
		return begin + time.Duration(float64(bounds[i]-begin)*(wanted-below)/n)
	}
	return 0
}
