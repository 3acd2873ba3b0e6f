package judge

import (
	"math"
	"testing"
	"time"
)

// The documented defaults.
func TestDefaults(t *testing.T) {
	want := Guards{ErrorIncrease: 0.01, LatencyRatio: 1.5, LatencyIncrease: time.Millisecond, MinRequests: 100, Alpha: 0.001}
	if got := Defaults(); got != want {
		t.Errorf("%+v", got)
	}
	set := Guards{ErrorIncrease: 0.5, LatencyRatio: 0.5, LatencyIncrease: 1, MinRequests: 1, Alpha: 0.5}
	if got := set.withDefaults(); got != set {
		t.Errorf("%+v, want %+v", got, set)
	}
}

// A slice is complete at exactly its least length and number of requests.
func TestCompleteSlices(t *testing.T) {
	begin := time.Unix(0, 0)
	for _, c := range []struct {
		length         time.Duration
		stable, canary uint64
		want           bool
	}{
		{800 * time.Millisecond, 5, 5, true},
		{800*time.Millisecond - 1, 5, 5, false},
		{time.Hour, 4, 5, false},
		{time.Hour, 5, 4, false},
	} {
		s := slice{begin: begin, end: begin.Add(c.length), stable: Sample{Requests: c.stable}, canary: Sample{Requests: c.canary}}
		if got := s.comparable(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// Requests of one revision are kept while the other has none.
func TestRevisionsInTurn(t *testing.T) {
	j := New(Guards{}, bounds)
	feed(j,
		second{requests(9, 0, 20), requests(0, 0, 20)}, second{requests(0, 0, 20), requests(3, 0, 20)},
		second{requests(0, 0, 20), requests(0, 0, 20)}, second{requests(0, 0, 20), requests(3, 0, 20)},
	)
	if j.slices != 1 || j.compared != 6 || j.window[0].stable.Requests != 9 {
		t.Errorf("%d slices, %+v", j.slices, j.window)
	}
}

// The last slices are kept, in order.
func TestWindow(t *testing.T) {
	var w window
	if w.span() != 0 || w.errorIncrease() != 0 {
		t.Errorf("an empty window has a span of %s and an increase of %g", w.span(), w.errorIncrease())
	}
	begin := time.Unix(0, 0)
	for i := range 100 {
		w = w.push(slice{begin: begin.Add(time.Duration(i) * time.Second), end: begin.Add(time.Duration(i+1) * time.Second), stable: Sample{Requests: uint64(i)}})
	}
	if len(w) != 30 || w.span() != 30*time.Second || w[0].stable.Requests != 70 || w[29].stable.Requests != 99 {
		t.Errorf("%d slices over %s, the first is %+v", len(w), w.span(), w[0])
	}
}

// Both revisions are compared slice by slice: the stable one is weighted with the
// requests of the canary.
func TestWeightsOfSlices(t *testing.T) {
	w := window{
		{stable: Sample{Requests: 90, Errors: 9, Latency: Histogram{60, 30}}, canary: Sample{Requests: 10, Errors: 2, Latency: Histogram{4, 6}}},
		{stable: Sample{Requests: 50, Errors: 25, Latency: Histogram{0, 0, 50}}, canary: Sample{Requests: 50, Errors: 30, Latency: Histogram{0, 25, 25}}},
		{stable: Sample{Requests: 10}, canary: Sample{Requests: 40, Errors: 4}}, // no histograms
	}
	// 2-1, 30-25 and 4-0 of 100.
	if got := w.errorIncrease(); math.Abs(got-0.1) > 1e-9 {
		t.Errorf("increase of %g", got)
	}
	stable, canary := w.latencies()
	for i, want := range (weighted{10 * 60 / 90., 10 * 30 / 90., 50}) {
		if math.Abs(stable[i]-want) > 1e-9 {
			t.Errorf("stable bucket %d: %g, want %g", i, stable[i], want)
		}
	}
	for i, want := range (weighted{4, 31, 25}) {
		if canary[i] != want {
			t.Errorf("canary bucket %d: %g, want %g", i, canary[i], want)
		}
	}
}

// Histograms of edges need not have the same length.
func TestAddHistograms(t *testing.T) {
	var s Sample
	for _, h := range []Histogram{{1}, {1, 1}, {1}, {0, 0, 2}} {
		s.Add(Sample{Requests: 2, Errors: 1, Latency: h})
	}
	if s.Requests != 8 || s.Errors != 4 || len(s.Latency) != 3 || s.Latency[0] != 3 || s.Latency[1] != 1 || s.Latency[2] != 2 {
		t.Errorf("%+v", s)
	}
}

// One error is evidence, and a slice without one is not.
func TestSlicesWithErrors(t *testing.T) {
	var e errorEvidence
	for number := range 3 {
		e.add(number+1, &slice{stable: Sample{Requests: 90}, canary: Sample{Requests: 10}})
	}
	if e.bad != 0 || e.bold[3].amount != 1 || math.Abs(e.careful.amount-stake(1)-stake(2)-stake(3)) > 1e-9 {
		t.Errorf("%+v", e)
	}
	before := e.careful.amount + stake(4)
	e.add(4, &slice{stable: Sample{Requests: 90, Errors: 1}, canary: Sample{Requests: 10}})
	if e.bad != 0 || math.Abs(e.careful.amount-before/2) > 1e-9 || math.Abs(e.bold[3].amount-1/10.9) > 1e-9 {
		t.Errorf("after an error of the stable revision: %+v", e)
	}
	before = e.careful.amount + stake(5)
	e.add(5, &slice{stable: Sample{Requests: 90}, canary: Sample{Requests: 10, Errors: 1}})
	if e.bad != 1 || math.Abs(e.careful.amount-before*2) > 1e-9 || math.Abs(e.bold[3].amount-100/10.9/10.9) > 1e-9 {
		t.Errorf("after an error of the canary: %+v", e)
	}
}

// The amounts of a guard are weighted parts.
func TestAmounts(t *testing.T) {
	e := errorEvidence{bad: 3, careful: careful{10}, bold: [len(odds)]bold{{1}, {2}, {3}, {4}}}
	if got, want := e.amount(), 0.3*10+0.7*(0.1*1+0.1*2+0.4*3+0.4*4); math.Abs(got-want) > 1e-9 {
		t.Errorf("errors: %g, want %g", got, want)
	}
	if e.bad = 2; e.amount() != 0 {
		t.Errorf("two slices with errors: %g", e.amount())
	}
	l := latencyEvidence{bold: [len(levels)]bold{{1}, {2}, {7}, {4}}, careful: [len(levels)]careful{{10}, {20}, {30}, {40}}}
	slow := func(level float64) bool { return level > 0.9 }
	if got, want := l.amount(slow), (0.7*3+0.3*30)/4; math.Abs(got-want) > 1e-9 {
		t.Errorf("latency: %g, want %g", got, want)
	}
	if got := l.worst(slow); got != 0.75 {
		t.Errorf("the worst level is %g", got)
	}
}

// The probability by chance is never above 1.
func TestBound(t *testing.T) {
	for amount, want := range map[float64]float64{0: 1, 1: 1, 2: 1, 4: 0.5, 2000: 0.001} {
		if got := bound(amount, 0.5); got != want {
			t.Errorf("%g: %g, want %g", amount, got, want)
		}
	}
}

// The canary is compared with the k-th slowest request of the stable revision.
func TestRanks(t *testing.T) {
	stable := make(Histogram, 99)
	for i := range stable {
		stable[i] = 1
	}
	for _, c := range []struct {
		level, bucket int
		want          float64
	}{
		{2, 95, 1.5}, {2, 94, 0.5}, // the 5th slowest of 99 is in bucket 94
		{3, 98, 0.5}, {1, 75, 0.7}, {1, 74, 0.5}, // the slowest, and the 25th slowest
		{0, 50, 0.6}, {0, 49, 0.5},
	} {
		canary := make(Histogram, 99)
		canary[0], canary[c.bucket] = 36, 4
		var e latencyEvidence
		e.add(1, &slice{stable: Sample{Latency: stable}, canary: Sample{Latency: canary}})
		if got := e.bold[c.level].amount; math.Abs(got-c.want) > 1e-9 {
			t.Errorf("level %g, bucket %d: %g, want %g", levels[c.level], c.bucket, got, c.want)
		}
	}
	// Of few requests it is the slowest.
	var few latencyEvidence
	few.add(1, &slice{stable: Sample{Latency: stable[:9]}, canary: Sample{Latency: Histogram{9: 1, 0: 9}}})
	if got := few.bold[3].amount; math.Abs(got-1) > 1e-9 {
		t.Errorf("9 requests: %g, want 1", got)
	}
	h := Histogram{1, 2, 0, 3}
	for slowest, want := range map[uint64]int{1: 3, 3: 3, 4: 1, 5: 1, 6: 0} {
		if got := h.bucketOf(slowest); got != want {
			t.Errorf("number %d is in bucket %d, want %d", slowest, got, want)
		}
	}
	// A revision without latencies is not compared.
	for _, s := range []slice{{stable: Sample{Latency: Histogram{1}}}, {canary: Sample{Latency: Histogram{0, 1}}}} {
		var e latencyEvidence
		if e.add(1, &s); e != (latencyEvidence{}) {
			t.Errorf("%+v: %+v", s, e)
		}
	}
}

// A latency is not tolerated from exactly the ratio and the increase on.
func TestTolerated(t *testing.T) {
	ms := time.Millisecond
	for _, c := range []struct {
		ratio    float64
		increase time.Duration
		want     bool
	}{
		{3, 10 * ms, false}, {3.1, 10 * ms, true}, {3, 10*ms + 1, true},
	} {
		compared := comparison{
			guards: Guards{LatencyRatio: c.ratio, LatencyIncrease: c.increase}, bounds: []time.Duration{10 * ms, 20 * ms},
			stableLatency: weighted{8}, canaryLatency: weighted{0, 8}, // 5 and 15 ms
		}
		if got := compared.tolerated(0.5); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	compared := comparison{bounds: []time.Duration{100 * ms}}
	f := compared.figures(&Sample{Requests: 1, Errors: 1}, weighted{1})
	if f != (Figures{Requests: 1, Errors: 1, ErrorRate: 1, P50: 50 * ms, P95: 95 * ms, P99: 99 * ms}) {
		t.Errorf("%+v", f)
	}
}
