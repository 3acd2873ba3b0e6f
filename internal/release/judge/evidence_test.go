package judge

import (
	"math"
	"testing"
	"time"
)

// Stakes are parts of one amount.
func TestStakes(t *testing.T) {
	var sum float64
	for number := 1; number <= 100_000; number++ {
		if s := stake(number); s <= 0 {
			t.Fatalf("stake %d is %g", number, s)
		}
		sum += stake(number)
	}
	if sum > 1 || sum < 0.9 {
		t.Errorf("the stakes are %g", sum)
	}
}

// The weights are parts of one amount too.
func TestWeights(t *testing.T) {
	var sum float64
	for _, o := range odds {
		sum += o.weight
	}
	if math.Abs(sum-1) > 1e-9 || math.Abs(alphaOfErrors+alphaOfLatency-1) > 1e-9 {
		t.Errorf("the weights of the odds are %g, the parts of alpha %g", sum, alphaOfErrors+alphaOfLatency)
	}
}

// The expected evidence of a slice is at most what was there before if both revisions
// have the same error rate. It is computed over all outcomes.
func TestErrorsAreAFairGame(t *testing.T) {
	for _, c := range []struct{ stable, canary, errors uint64 }{{180, 20, 1}, {180, 20, 4}, {95, 5, 2}, {50, 50, 3}, {5, 95, 5}, {20, 10, 9}} {
		var before errorEvidence
		start := &slice{stable: Sample{Requests: c.stable}, canary: Sample{Requests: c.canary}}
		before.add(1, start)
		var bold [len(odds)]float64
		var careful, probabilities float64
		for in := uint64(0); in <= min(c.errors, c.canary); in++ {
			if c.errors-in > c.stable {
				continue
			}
			p := math.Exp(choose(c.canary, in) + choose(c.stable, c.errors-in) - choose(c.canary+c.stable, c.errors))
			after := before
			after.add(2, &slice{stable: Sample{Requests: c.stable, Errors: c.errors - in}, canary: Sample{Requests: c.canary, Errors: in}})
			probabilities += p
			for i := range odds {
				bold[i] += p * after.bold[i].amount
			}
			careful += p * after.careful.amount
		}
		if math.Abs(probabilities-1) > 1e-6 {
			t.Fatalf("the probabilities are %g", probabilities)
		}
		for i := range odds {
			if bold[i] > 1+1e-9 || bold[i] <= 0 {
				t.Errorf("%+v: bold at odds of %g: %g", c, odds[i].ratio, bold[i])
			}
		}
		if most := before.careful.amount + stake(2); careful > most+1e-9 || careful < most/2 {
			t.Errorf("%+v: careful %g, at most %g", c, careful, most)
		}
	}
}

// choose returns the logarithm of a binomial coefficient.
func choose(n, k uint64) float64 {
	gamma := func(x uint64) float64 { v, _ := math.Lgamma(float64(x) + 1); return v }
	return gamma(n) - gamma(k) - gamma(n-k)
}

// The same for latencies: one request of the canary is at each rank among those of the
// stable revision with the same probability.
func TestLatenciesAreAFairGame(t *testing.T) {
	for _, n := range []int{5, 19, 99, 180, 1000} {
		var before latencyEvidence
		before.add(1, &slice{stable: Sample{Latency: Histogram{1}}, canary: Sample{Latency: Histogram{1}}})
		var bold, careful [len(levels)]float64
		for rank := range n + 1 {
			// Each request of the stable revision has a bucket, and the canary's is between them.
			stable, canary := make(Histogram, 2*n+1), make(Histogram, 2*n+1)
			for i := range n {
				stable[2*i+1] = 1
			}
			canary[2*rank] = 1
			after := before
			after.add(2, &slice{stable: Sample{Latency: stable}, canary: Sample{Latency: canary}})
			for i := range levels {
				bold[i] += after.bold[i].amount / float64(n+1)
				careful[i] += after.careful[i].amount / float64(n+1)
			}
		}
		for i, level := range levels {
			if most := before.bold[i].amount; bold[i] > most+1e-9 || bold[i] < most/2 {
				t.Errorf("%d requests, level %g: bold %g, at most %g", n, level, bold[i], most)
			}
			if most := before.careful[i].amount + stake(2); careful[i] > most+1e-9 || careful[i] < most/2 {
				t.Errorf("%d requests, level %g: careful %g, at most %g", n, level, careful[i], most)
			}
		}
	}
}

// What one slice can add is bounded.
func TestBoundsOfOneSlice(t *testing.T) {
	var e errorEvidence
	e.add(1, &slice{stable: Sample{Requests: 1000}, canary: Sample{Requests: 100, Errors: 100}})
	for i, o := range odds {
		if e.bold[i].amount != o.most {
			t.Errorf("bold at odds of %g: %g", o.ratio, e.bold[i].amount)
		}
	}
	var l latencyEvidence
	s := &slice{stable: requests(1000, 0, 20), canary: requests(100, 0, 200)}
	l.add(1, s)
	if l.bold[3].amount != maxLatencyFactor || l.careful[3].amount != maxCarefulFactor*stake(1) {
		t.Errorf("bold %g, careful %g", l.bold[3].amount, l.careful[3].amount)
	}
	for number := 2; number <= boldSlices; number++ {
		l.add(number, s)
	}
	if l.bold[3].amount == 0 {
		t.Error("the bold bet ended early")
	}
	if l.add(boldSlices+1, s); l.bold[3].amount != 0 {
		t.Error("the bold bet did not end")
	}
	for number := range 100 {
		e.add(number+2, &slice{stable: Sample{Requests: 1000}, canary: Sample{Requests: 100, Errors: 100}})
	}
	if e.amount() > maxEvidence || e.careful.amount != maxEvidence {
		t.Errorf("%g, careful %g", e.amount(), e.careful.amount)
	}
}

func TestQuantile(t *testing.T) {
	ms := time.Millisecond
	bounds := []time.Duration{10 * ms, 20 * ms, 40 * ms}
	for _, c := range []struct {
		counts weighted
		part   float64
		want   time.Duration
	}{
		{nil, 0.5, 0},
		{weighted{0, 0}, 0.5, 0},
		{weighted{4}, 0.5, 5 * ms},
		{weighted{0, 4}, 0.5, 15 * ms},
		{weighted{2, 2}, 0.75, 15 * ms},
		{weighted{2, 0, 2}, 0.5, 10 * ms},
		{weighted{2, 0, 2}, 0.75, 30 * ms},
		{weighted{0, 0, 0, 3}, 0.5, 40 * ms},
		{weighted{0, 0, 0, 0, 3}, 0.5, 40 * ms},
	} {
		if got := c.counts.quantile(c.part, bounds); got != c.want {
			t.Errorf("%v at %g: %s, want %s", c.counts, c.part, got, c.want)
		}
	}
}

func TestTexts(t *testing.T) {
	for rate, want := range map[float64]string{
		0: "0 %", 0.0001: "less than 0.1 %", 0.0006: "0.1 %", 0.0009: "0.1 %", 0.0412: "4.1 %", 0.05: "5 %", 0.0994: "9.9 %", 0.0996: "10 %", 0.127: "13 %", 1: "100 %",
	} {
		if got := percent(rate); got != want {
			t.Errorf("%g: %q, want %q", rate, got, want)
		}
	}
	if got := waitMessage(100, 100); got != "waiting for more requests of both revisions" {
		t.Error(got)
	}
	for n, want := range map[uint64]string{0: "0", 999: "999", 2160: "2,160", 1234567: "1,234,567", 100000: "100,000"} {
		if got := Number(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		0: "0.0 ms", 340 * time.Microsecond: "0.3 ms", 12 * time.Millisecond: "12 ms", 999 * time.Millisecond: "999 ms", time.Second: "1.0 s", 1200 * time.Millisecond: "1.2 s", 30 * time.Second: "30 s",
	} {
		if got := duration(d); got != want {
			t.Errorf("%d: %q, want %q", d, got, want)
		}
	}
}
