package filter_test

import (
	"math"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/sharedlimit"
	"slipway.dev/slipway/internal/route"
)

// fleet is replicas of an edge with one limit, in virtual time.
type fleet struct {
	replicas []*fleetReplica
	now      time.Time
	late     []lateMessage
}

type fleetReplica struct {
	counters *filter.Counters
	chain    *filter.Chain
	exchange filter.Exchange
	head     *h1.Head
	// demand is in requests per second; due has the part of the next request.
	demand, due float64
	admitted    int
	dead        bool
}

type lateMessage struct {
	at      time.Time
	from    uint64
	to      *fleetReplica
	entries []sharedlimit.Entry
}

func newFleet(t testing.TB, size int, policy route.Policy) *fleet {
	f := &fleet{now: start}
	for range size {
		f.replicas = append(f.replicas, newFleetReplica(t, size, policy))
	}
	return f
}

func newFleetReplica(t testing.TB, size int, policy route.Policy) *fleetReplica {
	r := &fleetReplica{counters: filter.NewCounters(start), head: parse(t, get("/"), h1.DefaultLimits())}
	r.counters.Share(sharedlimit.NewHashKey("0123456789abcdef"))
	r.counters.SetReplicas(size, size)
	r.chain = compile(t, r.counters, policy)
	return r
}

// run lets a time pass in steps of a millisecond, and returns how many requests were
// admitted in it. Replicas exchange at different moments of a period, and messages
// take some milliseconds.
func (f *fleet) run(span time.Duration) int {
	for _, r := range f.replicas {
		r.admitted = 0
	}
	for end := f.now.Add(span); f.now.Before(end); f.now = f.now.Add(time.Millisecond) {
		f.step()
	}
	sum := 0
	for _, r := range f.replicas {
		sum += r.admitted
	}
	return sum
}

func (f *fleet) step() {
	waiting := f.late[:0]
	for _, m := range f.late {
		if m.at.After(f.now) {
			waiting = append(waiting, m)
		} else {
			m.to.counters.Charge(m.from, m.entries, f.now)
		}
	}
	f.late = waiting
	ms := f.now.Sub(start).Milliseconds()
	for i, r := range f.replicas {
		if r.dead {
			continue
		}
		for r.due += r.demand / 1000; r.due >= 1; r.due-- {
			r.request(f.now)
		}
		if ms%sharedlimit.Period.Milliseconds() != int64(i*37)%100 {
			continue
		}
		entries := r.counters.Lend(f.now)
		for j, other := range f.replicas {
			if other != r && !other.dead {
				f.late = append(f.late, lateMessage{f.now.Add(time.Duration(1+(i+j)%3*4) * time.Millisecond), uint64(i + 1), other, entries})
			}
		}
	}
}

func (r *fleetReplica) request(now time.Time) {
	r.exchange.Begin(r.head, r.chain.Marks())
	r.exchange.Client, r.exchange.Now = testClient, now
	if _, refused := r.chain.Request(&r.exchange); refused == nil {
		r.admitted++
	}
}

// TestSharedRate sends more requests than a limit of three replicas allows, spread
// in several ways: together they admit the limit.
func TestSharedRate(t *testing.T) {
	for _, test := range []struct {
		name    string
		rate    int64
		period  time.Duration
		burst   int64
		demands [3]float64
	}{
		{"all on one", 1000, time.Second, 100, [3]float64{3000, 0, 0}},
		{"spread", 1000, time.Second, 100, [3]float64{1000, 1000, 1000}},
		{"uneven", 1000, time.Second, 1000, [3]float64{5000, 500, 100}},
		{"two of three", 1000, time.Second, 1000, [3]float64{2000, 2000, 0}},
		{"large burst", 200, time.Second, 2000, [3]float64{500, 500, 500}},
		{"small burst", 1000, time.Second, 10, [3]float64{1000, 1000, 1000}},
		{"burst of one", 100, time.Second, 1, [3]float64{400, 200, 100}},
		{"slow", 60, time.Minute, 5, [3]float64{10, 10, 10}},
		{"just above", 1000, time.Second, 500, [3]float64{400, 400, 300}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFleet(t, 3, ratePolicy("r", test.rate, test.period, test.burst, route.HashKey{}))
			for i, r := range f.replicas {
				r.demand = test.demands[i]
			}
			perSecond := float64(test.rate) / test.period.Seconds()
			// The bursts are over when a time has passed in which they could be repaid.
			first := f.run(5 * time.Second)
			f.run(15 * time.Second)
			rest := f.run(60 * time.Second)
			if want := perSecond * 60; math.Abs(float64(rest)-want) > want*0.02+1 {
				t.Errorf("%d requests in a minute, want %.0f; by replica: %d %d %d", rest, want,
					f.replicas[0].admitted, f.replicas[1].admitted, f.replicas[2].admitted)
			}
			most := perSecond*5 + float64(test.burst) + 3*perSecond*sharedlimit.Period.Seconds() + 3
			if float64(first) > most {
				t.Errorf("%d requests in the first five seconds, at most %.0f allowed", first, most)
			}
			t.Logf("first %d (most %.0f), then %d; by replica: %d %d %d", first, most, rest, f.replicas[0].admitted, f.replicas[1].admitted, f.replicas[2].admitted)
		})
	}
}

// TestSharedRateOfFewer kills replicas: the majority has the whole limit, and a
// minority its part. A replica that starts again takes part.
func TestSharedRateOfFewer(t *testing.T) {
	policy := ratePolicy("r", 1000, time.Second, 250, route.HashKey{})
	f := newFleet(t, 3, policy)
	for _, r := range f.replicas {
		r.demand = 1500
	}
	check := func(what string, want float64) {
		t.Helper()
		f.run(2 * time.Second)
		if got := float64(f.run(10 * time.Second)); math.Abs(got-10*want) > 0.02*10*want {
			t.Errorf("%s: %v requests in 10 s, want %v", what, got, 10*want)
		}
	}
	heard := func(alive int) {
		for i, r := range f.replicas {
			r.dead = i >= alive
			r.counters.SetReplicas(alive, 3)
		}
	}
	check("three replicas", 1000)
	heard(2)
	check("two of three", 1000)
	heard(1)
	check("one of three", 1000.0/3)
	f.replicas[2] = newFleetReplica(t, 3, policy)
	f.replicas[2].demand = 1500
	heard(3)
	check("three again", 1000)
}

// TestPerReplica has a limit that is not shared.
func TestPerReplica(t *testing.T) {
	policy := ratePolicy("r", 100, time.Second, 10, route.HashKey{})
	policy.RateLimit.PerReplica = true
	f := newFleet(t, 3, policy)
	for _, r := range f.replicas {
		r.demand = 500
	}
	if got := f.run(10 * time.Second); got < 2900 {
		t.Errorf("three replicas admit %d requests in 10 s, want 3000", got)
	}
}

func TestSharedNoAllocations(t *testing.T) {
	r := newFleetReplica(t, 3, ratePolicy("r", 1<<40, time.Second, 1<<40, route.HashKey{}))
	if allocs := testing.AllocsPerRun(100, func() { r.request(start) }); allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func BenchmarkSharedRateLimit(b *testing.B) {
	r := newFleetReplica(b, 3, ratePolicy("r", 1<<40, time.Second, 1<<40, route.HashKey{}))
	b.ReportAllocs()
	for b.Loop() {
		r.request(start)
	}
}

// TestSharedInFlight keeps requests in flight on three replicas: together they have no
// more than the limit, and use it.
func TestSharedInFlight(t *testing.T) {
	const most, hold = 30, 250
	for _, test := range []struct {
		name    string
		demands [3]int // requests that each replica keeps waiting
	}{
		{"all on one", [3]int{100, 0, 0}},
		{"spread", [3]int{100, 100, 100}},
		{"uneven", [3]int{100, 20, 3}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFleet(t, 3, flightPolicy("f", most, route.HashKey{}))
			ends := map[int][]func(){} // by millisecond
			running, sum, above := 0, 0, 0
			const from, to = 2000, 12000
			for ms := range to {
				for _, end := range ends[ms] {
					end()
					running--
				}
				delete(ends, ms)
				for i, r := range f.replicas {
					for range test.demands[i] / 10 {
						x := &filter.Exchange{}
						x.Begin(r.head, r.chain.Marks())
						x.Client, x.Now = testClient, f.now
						ran, refused := r.chain.Request(x)
						if refused != nil {
							r.chain.Done(x, ran)
							continue
						}
						running++
						ends[ms+hold] = append(ends[ms+hold], func() { r.chain.Done(x, ran) })
					}
				}
				f.step()
				f.now = f.now.Add(time.Millisecond)
				if ms >= from {
					sum += running
					above = max(above, running-most)
				}
			}
			average := float64(sum) / (to - from)
			t.Logf("%.1f in flight on average, at most %d above the limit", average, above)
			if average < most*0.7 || average > most*1.05 || above > 6 {
				t.Errorf("%.1f in flight on average, at most %d above the limit of %d", average, above, most)
			}
		})
	}
}

// TestSharedInFlightOfDead has a replica that dies with requests in flight: they do
// not count for long.
func TestSharedInFlightOfDead(t *testing.T) {
	f := newFleet(t, 2, flightPolicy("f", 4, route.HashKey{}))
	for range 4 {
		f.replicas[0].request(f.now)
		f.run(200 * time.Millisecond)
	}
	admitted := func() int {
		r := f.replicas[1]
		r.admitted = 0
		r.request(f.now)
		return r.admitted
	}
	if admitted() != 0 {
		t.Error("a request is admitted above the limit")
	}
	f.replicas[0].dead = true
	f.run(2 * time.Second)
	if admitted() != 1 {
		t.Error("requests of a dead replica still count")
	}
}

// TestSharedRateMoves moves all requests to a replica that had none: far below the
// limit none is refused.
func TestSharedRateMoves(t *testing.T) {
	f := newFleet(t, 3, ratePolicy("r", 10000, time.Second, 2500, route.HashKey{}))
	for i := range 12 {
		for j, r := range f.replicas {
			r.demand = map[bool]float64{true: 1000}[j == i%3]
		}
		if got := f.run(time.Second); got < 999 {
			t.Errorf("%d of 1000 requests are admitted after a move", got)
		}
	}
}
