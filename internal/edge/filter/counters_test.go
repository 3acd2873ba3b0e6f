package filter_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/route"
)

func ratePolicy(name string, requests int64, period time.Duration, burst int64, key route.HashKey) route.Policy {
	return route.Policy{ID: id(name), RateLimit: &route.RateLimit{
		Requests: requests, Period: route.Duration(period), Burst: burst, Key: key,
	}}
}

func flightPolicy(name string, most int64, key route.HashKey) route.Policy {
	return route.Policy{ID: id(name), InFlight: &route.InFlight{Max: most, Key: key}}
}

// TestKeys sends pairs of requests to a limit of one: those with one key share
// it.
func TestKeys(t *testing.T) {
	other := from("192.0.2.9")
	tests := []struct {
		name   string
		key    route.HashKey
		first  string
		second string
		same   bool
		option func(*filter.Exchange)
	}{
		{"client by default", route.HashKey{}, get("/a"), get("/b"), true, nil},
		{"other client", route.HashKey{By: route.KeyClient}, get("/a"), get("/a"), false, other},
		{"IPv4 as IPv6", route.HashKey{By: route.KeyClient}, get("/a"), get("/a"), true, from("::ffff:192.0.2.1")},
		{"all", route.HashKey{By: route.KeyAll}, get("/a"), get("/b"), true, other},
		{"same host", route.HashKey{By: route.KeyHost}, "GET / HTTP/1.1\nHost: A.example:80\n\n", "GET / HTTP/1.1\nHost: a.example.\n\n", true, other},
		{"other host", route.HashKey{By: route.KeyHost}, "GET / HTTP/1.1\nHost: a.example\n\n", "GET / HTTP/1.1\nHost: b.example\n\n", false, nil},
		{"same path", route.HashKey{By: route.KeyPath}, get("/a/b?x"), get("//a/./%62?y"), true, other},
		{"other path", route.HashKey{By: route.KeyPath}, get("/a"), get("/b"), false, nil},
		{"same header", route.HashKey{By: route.KeyHeader, Name: "X-Key"}, get("/", "X-Key: 1"), get("/", "x-key:  1"), true, other},
		{"other header", route.HashKey{By: route.KeyHeader, Name: "X-Key"}, get("/", "X-Key: 1"), get("/", "X-Key: 2"), false, nil},
		{"no header is the client", route.HashKey{By: route.KeyHeader, Name: "X-Key"}, get("/"), get("/"), true, nil},
		{"no header, other client", route.HashKey{By: route.KeyHeader, Name: "X-Key"}, get("/"), get("/"), false, other},
		{"two headers are the client", route.HashKey{By: route.KeyHeader, Name: "X-Key"}, get("/", "X-Key: 1", "X-Key: 2"), get("/", "X-Key: 3", "X-Key: 4"), true, nil},
		{"same cookie", route.HashKey{By: route.KeyCookie, Name: "id"}, get("/", "Cookie: a=b; id=1"), get("/", "Cookie: x=y", "Cookie: id=1;z=2"), true, other},
		{"other cookie", route.HashKey{By: route.KeyCookie, Name: "id"}, get("/", "Cookie: id=1"), get("/", "Cookie: id=2"), false, nil},
		{"cookie in another case", route.HashKey{By: route.KeyCookie, Name: "id"}, get("/", "Cookie: id=1"), get("/", "Cookie: ID=1"), false, nil},
		{"two cookies are the client", route.HashKey{By: route.KeyCookie, Name: "id"}, get("/", "Cookie: id=1; id=2"), get("/", "Cookie: id=3; id=4"), true, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for kind, policy := range map[string]route.Policy{
				"rate": ratePolicy("rate", 1, time.Hour, 1, test.key),
				"flight": func() route.Policy {
					key := test.key
					if key.By == "" {
						key.By = route.KeyClient
					}
					return flightPolicy("flight", 1, key)
				}(),
			} {
				chain := compile(t, filter.NewCounters(start), policy)
				options := []func(*filter.Exchange){func(*filter.Exchange) {}}
				if test.option != nil {
					options[0] = test.option
				}
				first, second := begin(t, chain, test.first), begin(t, chain, test.second, options...)
				if first.status() != 0 {
					t.Errorf("%s: the first gets %d", kind, first.status())
				}
				if limited := second.status() == 429; limited != test.same {
					t.Errorf("%s: the second gets %d", kind, second.status())
				}
			}
		})
	}
}

// TestRateIsNeverExceeded sends at random times. In no span of time do more
// pass than the burst and what the rate allows.
func TestRateIsNeverExceeded(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, limit := range []struct {
		requests, burst int64
		period          time.Duration
	}{{10, 0, time.Second}, {3, 1, time.Second}, {1, 5, time.Minute}, {7, 20, 3 * time.Second}, {1 << 62, 2, time.Millisecond}} {
		chain := compile(t, filter.NewCounters(start), ratePolicy("r", limit.requests, limit.period, limit.burst, route.HashKey{}))
		burst := limit.burst
		if burst == 0 {
			burst = limit.requests
		}
		var passed []time.Duration
		now := time.Duration(0)
		for range 2000 {
			now += time.Duration(random.Int64N(int64(limit.period) / 2))
			if begin(t, chain, get("/"), at(now)).status() == 0 {
				passed = append(passed, now)
			}
		}
		if len(passed) == 0 {
			t.Fatal("nothing passes")
		}
		for i := range passed {
			for j := i; j < min(len(passed), i+300); j++ {
				allowed := float64(burst) + float64(passed[j]-passed[i])*float64(limit.requests)/float64(limit.period)
				if count := j - i + 1; float64(count) > allowed+1e-6 {
					t.Fatalf("%v: %d passed in %v", limit, count, passed[j]-passed[i])
				}
			}
		}
		// Neither is it stricter: what is saved up is there after a pause.
		now += 24 * time.Hour
		for i := range min(burst, 1000) {
			if got := begin(t, chain, get("/"), at(now)).status(); got != 0 {
				t.Fatalf("%v: number %d of the burst gets %d", limit, i, got)
			}
		}
	}
}

func TestRetryAfter(t *testing.T) {
	chain := compile(t, filter.NewCounters(start), ratePolicy("r", 1, time.Minute, 1, route.HashKey{}))
	begin(t, chain, get("/"))
	for _, test := range []struct {
		after time.Duration
		want  string
	}{{0, "60"}, {time.Second / 2, "60"}, {time.Second, "59"}, {59*time.Second + 999*time.Millisecond, "1"}} {
		got := begin(t, chain, get("/"), at(test.after)).replied(t, "HTTP/1.1 429 Limited\n\n")
		if want := "Retry-After: " + test.want + "\n"; !contains(got, want) {
			t.Errorf("after %v:\n%s\nwant %s", test.after, got, want)
		}
	}
}

// TestCountsSurvive shows that counts belong to the declaration: to all rules
// with it, before and after a change of the table.
func TestCountsSurvive(t *testing.T) {
	counters := filter.NewCounters(start)
	once := ratePolicy("shared", 1, time.Hour, 1, route.HashKey{})
	if got := begin(t, compile(t, counters, once), get("/")).status(); got != 0 {
		t.Fatalf("the first gets %d", got)
	}
	if got := begin(t, compile(t, counters, once), get("/")).status(); got != 429 {
		t.Errorf("another rule, or the same one compiled again, gets %d", got)
	}
	if got := begin(t, compile(t, counters, ratePolicy("other", 1, time.Hour, 1, route.HashKey{})), get("/")).status(); got != 0 {
		t.Errorf("another declaration gets %d", got)
	}
	relaxed := compile(t, counters, ratePolicy("shared", 10, time.Second, 10, route.HashKey{}))
	begin(t, relaxed, get("/"), at(time.Second))
	if got := begin(t, relaxed, get("/"), at(1100*time.Millisecond)).status(); got != 0 {
		t.Errorf("a limit that is less strict now answers %d for an hour", got)
	}
}

func TestKeep(t *testing.T) {
	counters := filter.NewCounters(start)
	once := ratePolicy("gone", 1, 24*time.Hour, 1, route.HashKey{})
	nested := route.Policy{Chain: &route.Chain{Policies: []route.Policy{once, {BodyLimit: &route.BodyLimit{MaxBytes: 1}}}}}
	begin(t, compile(t, counters, once), get("/"))
	limited := func() bool { return begin(t, compile(t, counters, once), get("/")).status() == 429 }

	counters.Keep(filter.PolicyIDs([]route.Policy{nested}), start)
	counters.Keep(filter.PolicyIDs([]route.Policy{nested}), start.Add(time.Hour))
	if !limited() {
		t.Error("a declaration in a chain is dropped")
	}
	counters.Keep(filter.PolicyIDs(nil), start)
	counters.Keep(filter.PolicyIDs(nil), start.Add(9*time.Minute))
	if !limited() {
		t.Error("a declaration that is back after nine minutes starts anew")
	}
	counters.Keep(filter.PolicyIDs(nil), start)
	counters.Keep(filter.PolicyIDs([]route.Policy{once}), start.Add(time.Minute))
	counters.Keep(filter.PolicyIDs(nil), start.Add(11*time.Minute))
	if !limited() {
		t.Error("the time before the declaration came back is counted")
	}
	counters.Keep(filter.PolicyIDs(nil), start)
	counters.Keep(filter.PolicyIDs(nil), start.Add(10*time.Minute))
	if usage := counters.Usage(); usage.Declarations != 0 {
		t.Errorf("a declaration that is gone for ten minutes is kept: %+v", usage)
	}
	if limited() {
		t.Error("a new declaration starts with old counts")
	}
}

func TestPolicyIDs(t *testing.T) {
	policies := []route.Policy{
		ratePolicy("a", 1, time.Second, 1, route.HashKey{}),
		{ID: id("no"), BodyLimit: &route.BodyLimit{}},
		{Chain: &route.Chain{Policies: []route.Policy{flightPolicy("b", 1, route.HashKey{}), breakerPolicy("c", 50, 1)}}},
	}
	if got, want := slices.Collect(filter.PolicyIDs(policies)), []route.PolicyID{id("a"), id("b"), id("c")}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for range filter.PolicyIDs(policies) {
		break // must not go on
	}
}

// TestKeysAreBounded sends from more clients than are counted.
func TestKeysAreBounded(t *testing.T) {
	const most, clients = 65536, 80000
	counters := filter.NewCounters(start)
	chain := compile(t, counters, ratePolicy("r", 1, time.Hour, 1, route.HashKey{}))
	r := begin(t, chain, get("/"), from("203.0.113.1"))
	send := func(n int, now time.Time) int {
		r.x.Begin(r.x.Head, chain.Marks())
		r.x.Client, r.x.Now = netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}), now
		if _, answer := chain.Request(&r.x); answer != nil {
			return answer.Status
		}
		return 0
	}
	for n := range clients {
		if got := send(n, start); got != 0 {
			t.Fatalf("client %d gets %d", n, got)
		}
	}
	usage := counters.Usage()
	if usage.RateKeys > most || usage.RateKeys < most*9/10 || usage.Forgotten < clients-most {
		t.Errorf("%+v", usage)
	}
	if got := send(clients-1, start); got != 429 {
		t.Errorf("the newest client gets %d", got)
	}
	if got := send(0, start); got != 0 {
		t.Errorf("the oldest client, which is forgotten, gets %d", got)
	}
	// Buckets that are full again go first, and without loss.
	forgotten := counters.Usage().Forgotten
	for n := range clients {
		send(n, start.Add(2*time.Hour))
	}
	if usage := counters.Usage(); usage.Forgotten > forgotten+clients-most+100 {
		t.Errorf("buckets are forgotten that need not be: %+v", usage)
	}
	send(0, start.Add(10*time.Hour))
	for n := range most {
		send(n%100, start.Add(time.Duration(10+2*n)*time.Hour))
	}
	if usage := counters.Usage(); usage.RateKeys > most {
		t.Errorf("%+v", usage)
	}
}

// TestOldestIsForgotten sees some clients again before room is needed: these
// stay, and those between them go.
func TestOldestIsForgotten(t *testing.T) {
	counters := filter.NewCounters(start)
	chain := compile(t, counters, ratePolicy("r", 1, time.Hour, 1, route.HashKey{}))
	r := begin(t, chain, get("/"), from("203.0.113.1"))
	limited := func(n int) bool {
		r.x.Begin(r.x.Head, chain.Marks())
		r.x.Client, r.x.Now = netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}), start
		_, answer := chain.Request(&r.x)
		return answer != nil
	}
	for n := range 40000 {
		limited(n)
	}
	again := func(n int) int { return n * 7919 % 40000 } // in no order
	for n := range 1000 {
		if !limited(again(n)) {
			t.Fatalf("client %d is forgotten while there is room", again(n))
		}
	}
	for n := 40000; n < 98000; n++ {
		limited(n)
	}
	if counters.Usage().Forgotten < 20000 {
		t.Fatalf("there was room: %+v", counters.Usage())
	}
	for n := range 1000 {
		if !limited(again(n)) {
			t.Fatalf("client %d was seen again, and is forgotten", again(n))
		}
	}
}

// TestFlightKeysAreBounded keeps more clients in flight than are counted.
func TestFlightKeysAreBounded(t *testing.T) {
	const clients = 80000
	counters := filter.NewCounters(start)
	chain := compile(t, counters, flightPolicy("f", 1, route.HashKey{By: route.KeyClient}))
	first := begin(t, chain, get("/"))
	runs := make([]*run, 0, clients)
	refused := 0
	for n := range clients {
		r := &run{chain: chain}
		r.x.Begin(first.x.Head, chain.Marks())
		r.x.Client = netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
		r.ran, r.answer = chain.Request(&r.x)
		if r.status() == 429 {
			refused++
		}
		runs = append(runs, r)
	}
	usage := counters.Usage()
	if usage.FlightKeys > 65536 || refused == 0 || usage.Refused != uint64(refused) || usage.FlightKeys+refused != clients+1 {
		t.Errorf("%d refused, %+v", refused, usage)
	}
	for _, r := range append(runs, first) {
		r.finish(200)
	}
	if usage := counters.Usage(); usage.FlightKeys != 0 {
		t.Errorf("after the last request: %+v", usage)
	}
}

func TestInFlight(t *testing.T) {
	chain := compile(t, filter.NewCounters(start), flightPolicy("f", 2, route.HashKey{}))
	first, second, third := begin(t, chain, get("/")), begin(t, chain, get("/")), begin(t, chain, get("/"))
	if first.status() != 0 || second.status() != 0 || third.status() != 429 {
		t.Fatalf("%d, %d, %d", first.status(), second.status(), third.status())
	}
	if got := third.replied(t, "HTTP/1.1 429 Limited\n\n"); !contains(got, "Retry-After: 1\n") {
		t.Errorf("the answer is\n%s", got)
	}
	third.finish(0) // must not free a place that it did not have
	if got := begin(t, chain, get("/")).status(); got != 429 {
		t.Errorf("a refused request frees a place: %d", got)
	}
	first.finish(200)
	if got := begin(t, chain, get("/")).status(); got != 0 {
		t.Errorf("a place is not free again: %d", got)
	}
}

// TestInFlightBehindRefusal: an exchange that a later filter refuses is not counted any more.
func TestInFlightBehindRefusal(t *testing.T) {
	chain := compile(t, filter.NewCounters(start), flightPolicy("f", 1, route.HashKey{}),
		route.Policy{BodyLimit: &route.BodyLimit{MaxBytes: 1}}, flightPolicy("inner", 1, route.HashKey{}))
	for range 3 {
		r := begin(t, chain, "POST / HTTP/1.1\nHost: a.example\nContent-Length: 2\n\n")
		if r.status() != 413 {
			t.Fatalf("status %d", r.status())
		}
		r.finish(0)
	}
}

// TestCountersTogether uses everything from many goroutines. What passes is
// exactly what may pass.
func TestCountersTogether(t *testing.T) {
	const workers, each, burst, most = 8, 200, 100, 3
	counters := filter.NewCounters(start)
	policies := []route.Policy{
		flightPolicy("f", most, route.HashKey{}),
		ratePolicy("r", 1, 24*time.Hour, burst, route.HashKey{By: route.KeyAll}),
		breakerPolicy("b", 100, 1000000),
	}
	var running, peak, passed, limited atomic.Int64
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			for i := range each {
				chain := compile(t, counters, policies...)
				r := begin(t, chain, get(fmt.Sprintf("/%d/%d", worker, i)))
				switch {
				case r.answer == nil:
					passed.Add(1)
					now := running.Add(1)
					for old := peak.Load(); now > old && !peak.CompareAndSwap(old, now); old = peak.Load() {
					}
					running.Add(-1)
				case r.answer.Reason == "RateLimited":
					limited.Add(1)
				}
				r.finish(200)
				counters.Keep(filter.PolicyIDs(policies), start)
				counters.Usage()
			}
		})
	}
	group.Wait()
	if peak.Load() > most {
		t.Errorf("%d were in flight", peak.Load())
	}
	if passed.Load() > burst || limited.Load() > 0 && passed.Load() != burst {
		t.Errorf("%d passed and %d were limited", passed.Load(), limited.Load())
	}
	if usage := counters.Usage(); usage.FlightKeys != 0 || usage.Declarations != 3 {
		t.Errorf("%+v", usage)
	}
}
