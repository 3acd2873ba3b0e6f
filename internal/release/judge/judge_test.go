package judge

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// second is a slice of a test.
type second struct{ stable, canary Sample }

// requests returns a sample with a latency in milliseconds.
func requests(n, errors uint64, millis float64) Sample {
	h := make(Histogram, len(bounds)+1)
	h[bucketOf(millis*1000)] = n
	return Sample{Requests: n, Errors: errors, Latency: h}
}

// feed gives seconds to a judge, one look each, and returns the last decision.
func feed(j *Judge, seconds ...second) (v Decision) {
	var sum second
	at := time.Unix(1000, 0)
	j.Observe(at, sum.stable, sum.canary)
	for _, s := range seconds {
		at = at.Add(time.Second)
		sum.stable.Add(s.stable)
		sum.canary.Add(s.canary)
		v = j.Observe(at, sum.stable, sum.canary)
	}
	return v
}

// repeat returns a second many times.
func repeat(n int, s second) (seconds []second) {
	for range n {
		seconds = append(seconds, s)
	}
	return seconds
}

var (
	good      = second{requests(180, 0, 20), requests(20, 0, 20)}
	erroneous = second{requests(180, 0, 20), requests(20, 1, 20)}
	slow      = second{requests(180, 0, 20), requests(20, 0, 60)}
)

func TestDecisions(t *testing.T) {
	for _, c := range []struct {
		name    string
		seconds []second
		outcome Outcome
		reason  string
		message string
	}{
		{"nothing", nil, "", "", ""},
		{"four slices", repeat(4, good), Wait, ReasonRequests, "waiting for 100 requests, 80 so far"},
		{"enough requests in four slices", repeat(4, second{requests(180, 0, 20), requests(60, 0, 20)}), Wait, ReasonRequests, "waiting for more requests of both revisions"},
		{"five slices", repeat(5, good), Pass, ReasonNotWorse, "0 % errors (0 of 100) against 0 % (0 of 900)"},
		{"no stable requests", repeat(50, second{requests(4, 0, 20), requests(20, 0, 20)})[:1], Wait, ReasonRequests, "waiting for 100 requests, 0 so far"},
		{"three errors", repeat(3, erroneous), Wait, ReasonRequests, "waiting for 100 requests, 60 so far"},
		{"three errors in five slices", append(repeat(3, erroneous), good, good), Wait, ReasonSuspicious, "seems worse: 3 % errors (3 of 100) against 0 % (0 of 900)"},
		{"four errors", repeat(4, erroneous), Fail, ReasonErrorRate, "5 % errors (4 of 80) against 0 % (0 of 720)"},
		{"all fail for two slices", repeat(2, second{requests(180, 0, 20), requests(20, 20, 20)}), Wait, ReasonRequests, "waiting for 100 requests, 40 so far"},
		{"all fail for three slices", repeat(3, second{requests(180, 0, 20), requests(20, 20, 20)}), Fail, ReasonErrorRate, "100 % errors (60 of 60) against 0 % (0 of 540)"},
		{"both fail", repeat(20, second{requests(180, 90, 20), requests(20, 10, 20)}), Pass, ReasonNotWorse, "50 % errors (200 of 400) against 50 % (1,800 of 3,600)"},
		{"slow for five slices", repeat(5, slow), Wait, ReasonSuspicious, "seems worse: p95 of 65 ms against 23 ms (100 requests)"},
		{"slow", repeat(7, slow), Fail, ReasonLatency, "p95 of 65 ms against 23 ms (140 requests)"},
		{"a burst, then good", append(repeat(5, slow), repeat(30, good)...), Pass, ReasonNotWorse, "0 % errors (0 of 600) against 0 % (0 of 5,400)"},
		{"tolerated: slower by a third", repeat(100, second{requests(180, 0, 20), requests(20, 0, 27)}), Pass, ReasonNotWorse, "0 % errors (0 of 600) against 0 % (0 of 5,400)"},
		{"tolerated: less than a millisecond", repeat(100, second{requests(180, 0, 0.3), requests(20, 0, 0.9)}), Pass, ReasonNotWorse, "0 % errors (0 of 600) against 0 % (0 of 5,400)"},
		{"tolerated: 0.5 % errors", repeat(200, second{requests(1800, 0, 20), requests(200, 1, 20)}), Pass, ReasonNotWorse, "0.5 % errors (30 of 6,000) against 0 % (0 of 54,000)"},
		{"late errors", append(repeat(60, good), repeat(20, erroneous)...), Fail, ReasonErrorRate, "1.2 % errors (7 of 600) against 0 % (0 of 5,400) in the last 30 s"},
		{"late and slow", append(repeat(60, good), repeat(40, slow)...), Fail, ReasonLatency, "p75 of 62 ms against 22 ms (600 requests) in the last 30 s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := feed(New(Guards{}, bounds), c.seconds...)
			if v.Outcome != c.outcome || v.Reason != c.reason || v.Message != c.message {
				t.Errorf("%s, %s, %q with P %.2g; want %s, %s, %q", v.Outcome, v.Reason, v.Message, v.P, c.outcome, c.reason, c.message)
			}
			if (v.P <= Defaults().Alpha) != (c.outcome == Fail) && c.outcome != "" {
				t.Errorf("P is %g at %s", v.P, v.Outcome)
			}
		})
	}
}

// A revision that failed stays so, whatever follows.
func TestFailIsFinal(t *testing.T) {
	v := feed(New(Guards{}, bounds), append(repeat(4, erroneous), repeat(500, good)...)...)
	if v.Outcome != Fail || v.Canary.Requests != 80 {
		t.Errorf("%+v", v)
	}
}

func TestGuards(t *testing.T) {
	for _, c := range []struct {
		name    string
		guards  Guards
		seconds []second
		want    Outcome
	}{
		{"error increase", Guards{ErrorIncrease: 0.06}, repeat(20, erroneous), Pass},
		{"latency ratio", Guards{LatencyRatio: 4}, repeat(20, slow), Pass},
		{"latency increase", Guards{LatencyIncrease: 50 * time.Millisecond}, repeat(20, slow), Pass},
		{"minimum of requests", Guards{MinRequests: 401}, repeat(20, good), Wait},
		{"minimum of requests, reached", Guards{MinRequests: 400}, repeat(20, good), Pass},
		{"alpha", Guards{Alpha: 1e-5}, repeat(4, erroneous), Wait},
	} {
		if v := feed(New(c.guards, bounds), c.seconds...); v.Outcome != c.want {
			t.Errorf("%s: %s, %s", c.name, v.Outcome, v.Message)
		}
	}
}

// The decision depends on sums: how many edges counted the requests does not matter.
func TestAnyNumberOfEdges(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 22))
	for edges := 1; edges <= 9; edges++ {
		one, many := New(Guards{}, bounds), New(Guards{}, bounds)
		counts := make([]second, edges)
		var whole second
		at := time.Unix(0, 0)
		for range 60 {
			for range 200 {
				request := requests(1, 0, 20*math.Exp(0.7*rng.NormFloat64()))
				revision := func(s *second) *Sample { return &s.stable }
				if rng.IntN(10) == 0 {
					revision = func(s *second) *Sample { return &s.canary }
					request.Errors = uint64(rng.IntN(60) / 59)
				}
				revision(&whole).Add(request)
				revision(&counts[rng.IntN(edges)]).Add(request)
			}
			var sum second
			for _, i := range rng.Perm(edges) {
				sum.stable.Add(counts[i].stable)
				sum.canary.Add(counts[i].canary)
			}
			at = at.Add(time.Second)
			if a, b := one.Observe(at, whole.stable, whole.canary), many.Observe(at, sum.stable, sum.canary); a != b {
				t.Fatalf("%d edges: %+v, want %+v", edges, b, a)
			}
		}
	}
}

// Looks that follow fast are one slice: more looks are not more evidence.
func TestFastLooks(t *testing.T) {
	j := New(Guards{}, bounds)
	var sum second
	at := time.Unix(0, 0)
	for range 30 {
		j.Observe(at, sum.stable, sum.canary)
		at = at.Add(100 * time.Millisecond)
		sum.stable.Add(erroneous.stable)
		sum.canary.Add(erroneous.canary)
	}
	if j.slices != 3 {
		t.Errorf("%d slices", j.slices)
	}
}

// Little traffic makes slices longer, until both revisions have requests in them.
func TestLittleTraffic(t *testing.T) {
	j := New(Guards{}, bounds)
	feed(j, repeat(40, second{requests(9, 0, 20), requests(1, 0, 20)})...)
	if j.slices != 8 || j.compared != 40 {
		t.Errorf("%d slices with %d requests", j.slices, j.compared)
	}
	j = New(Guards{}, bounds)
	feed(j, repeat(40, second{requests(1, 0, 20), requests(9, 0, 20)})...)
	if j.slices != 8 {
		t.Errorf("%d slices", j.slices)
	}
}

// The counts at the first look are no slice, and neither is what an edge lost.
func TestCountsThatAreNoSlice(t *testing.T) {
	j := New(Guards{}, bounds)
	at := time.Unix(0, 0)
	look := func(stable, canary Sample) {
		at = at.Add(time.Second)
		j.Observe(at, stable, canary)
	}
	look(requests(1000, 0, 20), requests(1000, 900, 20))
	for _, c := range []struct {
		name           string
		stable, canary Sample
		slices         int
	}{
		{"the same again", requests(1000, 0, 20), requests(1000, 900, 20), 0},
		{"fewer requests", requests(500, 0, 20), requests(1100, 900, 20), 0},
		{"fewer errors", requests(600, 0, 20), requests(1200, 800, 20), 0},
		{"another bucket", requests(700, 0, 20), requests(1300, 800, 40), 0},
		{"more of all", requests(800, 0, 20), requests(1400, 800, 40), 1},
		{"fewer buckets", Sample{Requests: 900}, requests(1500, 800, 40), 1},
		{"no buckets", Sample{Requests: 1000}, requests(1600, 800, 40), 2},
	} {
		if look(c.stable, c.canary); j.slices != c.slices {
			t.Errorf("%s: %d slices, want %d", c.name, j.slices, c.slices)
		}
	}
}

// More errors than requests are a look at counters that just change.
func TestErrorsAreRequests(t *testing.T) {
	s, ok := Sample{Requests: 10, Errors: 7}.since(Sample{Requests: 5})
	if !ok || s.Errors != 5 {
		t.Errorf("%+v, %v", s, ok)
	}
}

// The judge keeps no memory of the caller.
func TestSamplesAreCopied(t *testing.T) {
	j := New(Guards{}, bounds)
	var sum second
	sum.stable.Add(requests(180, 0, 20))
	sum.canary.Add(requests(20, 0, 20))
	at := time.Unix(0, 0)
	for range 10 {
		j.Observe(at, sum.stable, sum.canary)
		at = at.Add(time.Second)
		sum.stable.Add(good.stable)
		sum.canary.Add(good.canary)
	}
	if j.slices != 9 || j.window[8].canary.Latency.total() != 20 {
		t.Errorf("%d slices, the last with %d requests", j.slices, j.window[len(j.window)-1].canary.Latency.total())
	}
}

// Errors and slow times that both have are no evidence, although the canary has most of
// its requests at that time.
func TestSharesChange(t *testing.T) {
	seconds := append(repeat(60, second{requests(190, 0, 20), requests(10, 0, 20)}),
		repeat(60, second{requests(100, 10, 90), requests(100, 10, 90)})...)
	if v := feed(New(Guards{}, bounds), seconds...); v.Outcome != Pass || v.P != 1 {
		t.Errorf("%s with P %g: %s", v.Outcome, v.P, v.Message)
	}
	// The same within one window.
	if v := feed(New(Guards{}, bounds), seconds[50:75]...); v.Outcome != Pass || v.P != 1 {
		t.Errorf("%s with P %g: %s", v.Outcome, v.P, v.Message)
	}
}

func TestWithoutHistograms(t *testing.T) {
	j := New(Guards{}, nil)
	v := feed(j, repeat(30, second{requests(180, 0, 20), requests(20, 0, 60)})...)
	if v.Outcome != Pass || v.Canary.P99 != 0 {
		t.Errorf("%+v", v)
	}
	v = feed(New(Guards{}, bounds), repeat(4, second{Sample{Requests: 180}, Sample{Requests: 20, Errors: 1}})...)
	if v.Outcome != Fail {
		t.Errorf("%+v", v)
	}
}

func TestFigures(t *testing.T) {
	v := feed(New(Guards{}, bounds), repeat(40, second{requests(180, 0, 20), requests(20, 0, 25)})...)
	want := Figures{Requests: 600, P50: v.Canary.P50, P95: v.Canary.P95, P99: v.Canary.P99}
	if v.Canary != want || v.Span != 30*time.Second {
		t.Errorf("%+v over %s", v.Canary, v.Span)
	}
	if begin, end := bounds[bucketOf(25000)-1], bounds[bucketOf(25000)]; v.Canary.P50 <= begin || v.Canary.P50 >= v.Canary.P95 || v.Canary.P95 >= v.Canary.P99 || v.Canary.P99 >= end {
		t.Errorf("%+v, the bucket is from %s to %s", v.Canary, begin, end)
	}
}
