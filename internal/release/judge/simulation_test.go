package judge

import (
	"math"
	"math/rand/v2"
	"time"
)

// bounds are those of the simulations: quarters of a power of two from 128 µs to a
// minute, as the edge has them.
var bounds = func() (bounds []time.Duration) {
	for i := range 77 {
		bounds = append(bounds, time.Duration(128*math.Exp2(float64(i)/4)*float64(time.Microsecond)))
	}
	return bounds
}()

// bucketOf returns the bucket of a latency in microseconds.
func bucketOf(micros float64) int {
	if micros < 128 {
		return 0
	}
	return min(int(4*math.Log2(micros/128))+1, len(bounds))
}

// noise are latencies that are log-normal around 20 ms, with times at which Pods are
// slower: all of them together, and each on its own.
type noise struct {
	sigma        float64
	shared, pods burst
}

// burst is a time at which requests take longer. It has an exponential length.
type burst struct {
	every, length float64 // in seconds; none if every is 0
	factor        float64
	errors        float64 // additional rate
}

// release is a simulated release with one look each second.
type release struct {
	noise
	rate        int       // requests per second
	shares      []float64 // of the canary, one for each step
	step        int       // seconds of each
	waits       bool      // a step lasts until the canary passes, as those of a policy do
	pods        int       // of the stable revision; the canary has its share of them
	errors      float64   // error rate of the stable revision
	worse       float64   // the canary's beyond it
	every       int       // if set, each n-th request of the canary fails
	slower      float64   // the canary's factor of latency
	onset       int       // second at which the canary becomes worse
	streams     float64   // part of requests that take a hundred times longer
	canaryCount int
}

// state is a Pod, or what all of them share.
type state struct{ left float64 }

// speed is how requests of a second go.
type speed struct{ factor, errors float64 }

// step returns the speed of a second.
func (s *state) step(b burst, rng *rand.Rand) speed {
	if s.left <= 0 && b.every > 0 && rng.Float64() < 1/b.every {
		s.left = rng.ExpFloat64() * b.length
	}
	if s.left <= 0 {
		return speed{factor: 1}
	}
	// The last second of a burst is a part of one.
	part := min(s.left, 1)
	s.left--
	return speed{1 + (b.factor-1)*part, b.errors * part}
}

// speeds returns those of Pods.
func (r *release) speeds(rng *rand.Rand, pods []state, shared speed) (speeds []speed) {
	for i := range pods {
		s := pods[i].step(r.noise.pods, rng)
		speeds = append(speeds, speed{s.factor * shared.factor, s.errors + shared.errors + r.errors})
	}
	return speeds
}

// longestStep bounds a step of a canary that neither passes nor fails, in seconds.
const longestStep = 600

// run returns the decision and the second of it. Pass is that of the last look.
func (r *release) run(guards Guards, seed uint64) (Decision, int) {
	rng := rand.New(rand.NewPCG(seed, 22))
	begin := time.Unix(0, 0)
	j := New(guards, bounds)
	var stable, canary Sample
	stable.Latency, canary.Latency = make(Histogram, len(bounds)+1), make(Histogram, len(bounds)+1)
	v := j.Observe(begin, stable, canary)
	all := make([]state, r.pods+1)
	second := 0
	for _, share := range r.shares {
		canaryPods := max(1, int(math.Ceil(share*float64(r.pods))))
		canaries := make([]state, canaryPods)
		for i := 0; i < r.step || r.waits && v.Outcome != Pass && i < longestStep; i++ {
			second++
			shared := all[0].step(r.shared, rng)
			of := int(math.Round(share * float64(r.rate)))
			r.serve(rng, r.speeds(rng, all[1:], shared), r.rate-of, &stable, false)
			r.serve(rng, r.speeds(rng, canaries, shared), of, &canary, second > r.onset)
			v = j.Observe(begin.Add(time.Duration(second)*time.Second), stable, canary)
			if v.Outcome == Fail {
				return v, second
			}
		}
	}
	return v, second
}

// serve adds the requests of a second.
func (r *release) serve(rng *rand.Rand, pods []speed, requests int, s *Sample, worse bool) {
	for i := range requests {
		now := pods[i%len(pods)]
		micros := 20000 * math.Exp(r.sigma*rng.NormFloat64()) * now.factor
		if r.streams > 0 && rng.Float64() < r.streams {
			micros *= 100
		}
		s.Requests++
		if worse {
			r.canaryCount++
			now.errors += r.worse
			if r.slower > 0 {
				micros *= r.slower
			}
			if r.every > 0 && r.canaryCount%r.every == 0 {
				now.errors = 1
			}
		}
		if rng.Float64() < now.errors {
			s.Errors++
		}
		s.Latency[bucketOf(micros)]++
	}
}

// within returns how many are at most a limit.
func within(seconds []int, limit int) (n int) {
	for _, s := range seconds {
		if s <= limit {
			n++
		}
	}
	return n
}
