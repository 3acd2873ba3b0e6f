package upstream_test

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/route"
)

// weighted is the backend shop with endpoints a, b, c and so on.
func weighted(method route.BalanceMethod, weights ...uint32) *route.Backend {
	b := cart(pods(len(weights))...)
	for i, weight := range weights {
		b.Endpoints[i].Weight = weight
	}
	b.Balancing.Method = method
	return b
}

var alphabet = pods(26)

// letter is the name of a pod's address in tests.
func letter(lease *upstream.Lease) string {
	at := slices.Index(alphabet, lease.Endpoint().Address())
	return string(rune('a' + at))
}

// sequence picks n times, one request after the other.
func sequence(t *testing.T, h *upstream.Handle, n int) string {
	t.Helper()
	var text strings.Builder
	for range n {
		lease := pick(t, h, upstream.PickOptions{})
		text.WriteString(letter(&lease))
		lease.Done(upstream.OK)
	}
	return text.String()
}

func count(text string) map[string]int {
	counts := map[string]int{}
	for _, c := range text {
		counts[string(c)]++
	}
	return counts
}

func TestRoundRobin(t *testing.T) {
	for _, test := range []struct {
		name string
		b    *route.Backend
		want string
	}{
		{"equal", weighted(route.BalanceRoundRobin, 0, 0, 0), "abcabcabc"},
		{"sameWeight", weighted(route.BalanceRoundRobin, 4, 4), "abab"},
		{"single", weighted(route.BalanceRoundRobin, 5), "aaa"},
		{"smooth", weighted(route.BalanceRoundRobin, 5, 1, 1), "aabacaaaabacaa"},
		{"zeroGetsNothing", weighted(route.BalanceRoundRobin, 2, 0, 1), "acaaca"},
		{"large", weighted(route.BalanceRoundRobin, math.MaxUint32, math.MaxUint32/2), "abaaba"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, upstream.Config{})
			w.serve(test.b)
			if got := sequence(t, w.Handle(shop), len(test.want)); got != test.want {
				t.Errorf("order %s, want %s", got, test.want)
			}
		})
	}
}

func TestSmoothIsExact(t *testing.T) {
	weights := []uint32{13, 1, 7, 100, 29}
	w := newWorld(t, upstream.Config{})
	w.serve(weighted(route.BalanceRoundRobin, weights...))
	for round := range 3 {
		got := count(sequence(t, w.Handle(shop), 150))
		want := map[string]int{"a": 13, "b": 1, "c": 7, "d": 100, "e": 29}
		if !maps.Equal(got, want) {
			t.Errorf("period %d: %v, want %v", round, got, want)
		}
	}
}

// A table that changes all the time must not send everything to the first.
func TestTurnSurvivesChanges(t *testing.T) {
	for name, weights := range map[string][]uint32{"equal": {0, 0, 0}, "weighted": {2, 1, 1}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, upstream.Config{})
			all := ""
			for i := range 12 {
				b := weighted(route.BalanceRoundRobin, weights...)
				b.Endpoints[0].Zone = string(rune('a' + i)) // any change
				w.serve(b)
				all += sequence(t, w.Handle(shop), 1)
			}
			want := map[string]int{"a": 4, "b": 4, "c": 4}
			if name == "weighted" {
				want = map[string]int{"a": 6, "b": 3, "c": 3}
			}
			if got := count(all); !maps.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
}

func TestLeastRequests(t *testing.T) {
	t.Run("idleFollowsWeights", func(t *testing.T) {
		w := newWorld(t, upstream.Config{})
		w.serve(weighted("", 1, 3))
		// The deviation of 4000 draws with p=1/4 is 27; six of them never come.
		if got := count(sequence(t, w.Handle(shop), 4000))["a"]; got < 830 || got > 1170 {
			t.Errorf("%d of 4000 requests went to the endpoint with a quarter of the weight", got)
		}
	})
	t.Run("busyFollowsLoad", func(t *testing.T) {
		w := newWorld(t, upstream.Config{})
		w.serve(weighted("", 1, 1))
		h := w.Handle(shop)
		counts := map[string]int{}
		for range 100 {
			lease := pick(t, h, upstream.PickOptions{})
			counts[letter(&lease)]++
			defer lease.Done(upstream.OK)
		}
		if counts["a"] != 50 {
			t.Errorf("%v; with two endpoints the less busy of both is always known", counts)
		}
	})
	t.Run("busyFollowsWeightedLoad", func(t *testing.T) {
		w := newWorld(t, upstream.Config{})
		w.serve(weighted("", 1, 3))
		h := w.Handle(shop)
		counts := map[string]int{}
		for range 400 {
			lease := pick(t, h, upstream.PickOptions{})
			counts[letter(&lease)]++
			defer lease.Done(upstream.OK)
		}
		if counts["a"] < 98 || counts["a"] > 102 {
			t.Errorf("%v, want 100 and 300 in flight", counts)
		}
	})
	t.Run("manySpread", func(t *testing.T) {
		w := newWorld(t, upstream.Config{})
		w.serve(weighted("", make([]uint32, 20)...))
		h := w.Handle(shop)
		counts := map[string]int{}
		for range 2000 {
			lease := pick(t, h, upstream.PickOptions{})
			counts[letter(&lease)]++
			defer lease.Done(upstream.OK)
		}
		for name, n := range counts {
			if n < 90 || n > 110 {
				t.Errorf("endpoint %s has %d requests in flight; 100 is its share", name, n)
			}
		}
	})
}

func TestLeastTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, upstream.Config{})
		w.serve(weighted(route.BalanceLeastTime, 0, 0))
		h := w.Handle(shop)
		// run makes a request that takes 9 ms on a and 3 ms on b.
		run := func() string {
			lease := pick(t, h, upstream.PickOptions{})
			name := letter(&lease)
			<-time.After(map[string]time.Duration{"a": 9, "b": 3}[name] * time.Millisecond)
			lease.ResponseStarted()
			<-time.After(time.Second) // the body does not count
			lease.Done(upstream.OK)
			return name
		}
		known := map[string]bool{}
		for range 100 {
			known[run()] = true
		}
		if len(known) != 2 {
			t.Fatalf("only %v was tried", known)
		}
		if got := w.state(t, pods(2)[1]).Latency; got != 3*time.Millisecond {
			t.Errorf("the latency of b is %v, want 3ms", got)
		}
		// What was slow long ago gets another chance, and no more.
		tries := 0
		for tries < 100 && run() != "a" {
			tries++
		}
		if tries == 100 {
			t.Fatal("the slow endpoint is never tried again")
		}
		all := ""
		for range 10 {
			all += run()
		}
		if all != "bbbbbbbbbb" {
			t.Errorf("the quicker of both is b, and the order was %s", all)
		}
	})
}

func TestAvoid(t *testing.T) {
	for _, method := range []route.BalanceMethod{route.BalanceLeastRequests, route.BalanceRoundRobin, route.BalanceLeastTime, route.BalanceHash} {
		t.Run(string(method), func(t *testing.T) {
			w := newWorld(t, upstream.Config{})
			w.serve(weighted(method, 1, 5, 1))
			h := w.Handle(shop)
			for key := range uint64(50) {
				lease := pick(t, h, upstream.PickOptions{Hash: key, HasHash: true})
				other := pick(t, h, upstream.PickOptions{Hash: key, HasHash: true, Avoid: lease.Endpoint()})
				if other.Endpoint() == lease.Endpoint() {
					t.Fatal("the endpoint to avoid was chosen")
				}
				lease.Done(upstream.OK)
				other.Done(upstream.OK)
			}
			w.serve(weighted(method, 1))
			lease := pick(t, h, upstream.PickOptions{})
			only := pick(t, h, upstream.PickOptions{Avoid: lease.Endpoint()})
			only.Done(upstream.OK)
			lease.Done(upstream.OK)
		})
	}
}

func TestZones(t *testing.T) {
	for _, test := range []struct {
		name  string
		zones string // of the endpoints; the edge is in a
		want  string
	}{
		{"oneInEach", "abc", "aaa"},
		{"enough", "aabb", "abab"},
		{"fourFifths", "aaaabbbbbb", "abcdabcd"},
		{"tooFew", "abbb", "abcd"},
		{"none", "bbc", "abc"},
		{"all", "aaa", "abc"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := weighted(route.BalanceRoundRobin, make([]uint32, len(test.zones))...)
			for i := range b.Endpoints {
				b.Endpoints[i].Zone = test.zones[i : i+1]
			}
			b.Balancing.PreferZone = true
			w := newWorld(t, upstream.Config{Zone: "a"})
			w.serve(b)
			if got := sequence(t, w.Handle(shop), len(test.want)); got != test.want {
				t.Errorf("order %s, want %s", got, test.want)
			}
		})
	}
	t.Run("avoidLeavesTheZone", func(t *testing.T) {
		b := weighted(route.BalanceRoundRobin, 0, 0)
		b.Endpoints[0].Zone, b.Endpoints[1].Zone = "a", "b"
		b.Balancing.PreferZone = true
		w := newWorld(t, upstream.Config{Zone: "a"})
		w.serve(b)
		lease := pick(t, w.Handle(shop), upstream.PickOptions{})
		other := pick(t, w.Handle(shop), upstream.PickOptions{Avoid: lease.Endpoint()})
		if got := letter(&lease) + letter(&other); got != "ab" {
			t.Errorf("order %s, want ab", got)
		}
		lease.Done(upstream.OK)
		other.Done(upstream.OK)
	})
}

func TestSlowStart(t *testing.T) {
	share := func(t *testing.T, h *upstream.Handle) float64 {
		choice := upstream.PickOptions{HasHash: true}
		got := 0
		for range 2000 {
			choice.Hash++
			lease := pick(t, h, choice)
			if letter(&lease) == "b" {
				got++
			}
			lease.Done(upstream.OK)
		}
		return float64(got) / 2000
	}
	for _, method := range []route.BalanceMethod{route.BalanceRoundRobin, route.BalanceLeastRequests, route.BalanceHash} {
		t.Run(string(method), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, upstream.Config{})
				b := func(weights ...uint32) *route.Backend {
					b := weighted(method, weights...)
					b.Balancing.SlowStart = route.Duration(100 * time.Second)
					return b
				}
				w.serve(b(1))
				<-time.After(time.Second)
				w.serve(b(1, 1))
				h := w.Handle(shop)
				begin := share(t, h)
				<-time.After(50 * time.Second)
				half := share(t, h)
				<-time.After(50 * time.Second)
				full := share(t, h)
				if begin < 0.02 || begin > 0.15 || half < 0.2 || half > 0.4 || full < 0.45 || full > 0.55 {
					t.Errorf("shares %.3f, %.3f, %.3f; want about 0.09 or less, a third or less, and a half", begin, half, full)
				}
			})
		})
	}
	t.Run("notAtTheBeginning", func(t *testing.T) {
		w := newWorld(t, upstream.Config{})
		b := weighted(route.BalanceRoundRobin, 1, 1)
		b.Balancing.SlowStart = route.Duration(time.Hour)
		w.serve(b)
		if got := sequence(t, w.Handle(shop), 4); got != "abab" {
			t.Errorf("order %s, want abab", got)
		}
	})
}

func TestOverload(t *testing.T) {
	for _, method := range []route.BalanceMethod{route.BalanceLeastRequests, route.BalanceRoundRobin, route.BalanceHash} {
		t.Run(string(method), func(t *testing.T) {
			w := newWorld(t, upstream.Config{MaxInFlightPerEndpoint: 2, RetryAfter: 3 * time.Second})
			w.serve(weighted(method, 1, 9))
			h := w.Handle(shop)
			var leases []upstream.Lease
			counts := map[string]int{}
			for range 4 {
				lease := pick(t, h, upstream.PickOptions{HasHash: true})
				counts[letter(&lease)]++
				leases = append(leases, lease)
			}
			if counts["a"] != 2 || counts["b"] != 2 {
				t.Errorf("%v in flight, want 2 on each", counts)
			}
			_, err := h.Pick(upstream.PickOptions{HasHash: true})
			var overload *upstream.OverloadError
			if !errors.As(err, &overload) || !errors.Is(err, upstream.ErrOverloaded) || overload.RetryAfter != 3*time.Second {
				t.Errorf("error %v, want an OverloadError with 3s", err)
			}
			if got := w.Stats().Overloads; got != 1 {
				t.Errorf("%d overloads, want 1", got)
			}
			leases[0].Done(upstream.OK)
			lease := pick(t, h, upstream.PickOptions{HasHash: true})
			lease.Done(upstream.OK)
			for i := range leases {
				leases[i].Done(upstream.OK)
			}
		})
	}
}
