package upstream_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/route"
)

// fail lets the n next requests to an endpoint end badly.
func fail(t *testing.T, h *upstream.Handle, name string, n int, outcome upstream.Outcome) {
	t.Helper()
	for range n {
		lease := toEndpoint(t, h, name)
		lease.Done(outcome)
	}
}

// toEndpoint picks until it gets an endpoint.
func toEndpoint(t *testing.T, h *upstream.Handle, name string) upstream.Lease {
	t.Helper()
	for range 1000 {
		lease := pick(t, h, upstream.PickOptions{})
		if letter(&lease) == name {
			return lease
		}
		lease.Done(upstream.Cancelled)
	}
	t.Fatalf("endpoint %s is not chosen", name)
	panic("not reached")
}

// gets reports whether requests go to an endpoint.
func gets(t *testing.T, h *upstream.Handle, name string) bool {
	t.Helper()
	for range 40 {
		lease := pick(t, h, upstream.PickOptions{})
		got := letter(&lease)
		lease.Done(upstream.Cancelled)
		if got == name {
			return true
		}
	}
	return false
}

func TestEjection(t *testing.T) {
	for _, method := range []route.BalanceMethod{route.BalanceRoundRobin, route.BalanceLeastRequests} {
		t.Run(string(method), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, upstream.Config{})
				w.serve(weighted(method, 0, 0))
				h := w.Handle(shop)
				fail(t, h, "a", 4, upstream.Reset)
				if !gets(t, h, "a") {
					t.Fatal("ejected after 4 failures, want 5")
				}
				fail(t, h, "a", 1, upstream.TimedOut)
				// 1 s, doubling to 30 s, as long as the trial fails.
				for _, seconds := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
					if gets(t, h, "a") {
						t.Fatal("an ejected endpoint got a request")
					}
					<-time.After(seconds*time.Second - 1)
					if gets(t, h, "a") {
						t.Fatalf("back before %d s", seconds)
					}
					<-time.After(1)
					lease := toEndpoint(t, h, "a")
					if gets(t, h, "a") {
						t.Fatal("two requests at once on trial")
					}
					lease.Done(upstream.Reset)
				}
				<-time.After(30 * time.Second)
				lease := toEndpoint(t, h, "a")
				lease.Done(upstream.OK)
				if !gets(t, h, "a") {
					t.Fatal("not back after a success")
				}
				// The success also made the next ejection short again.
				fail(t, h, "a", 5, upstream.Reset)
				<-time.After(time.Second)
				lease = toEndpoint(t, h, "a")
				lease.Done(upstream.OK)
				if got := w.Stats(); got.Ejections != 2 || got.Returns != 2 {
					t.Errorf("%d ejections and %d returns, want 2 and 2", got.Ejections, got.Returns)
				}
			})
		})
	}
}

func TestWhatCountsAsFailure(t *testing.T) {
	for _, test := range []struct {
		name  string
		fifth []upstream.Outcome // after four failures
		want  bool               // ejected
	}{
		{"reset", []upstream.Outcome{upstream.Reset}, true},
		{"timedOut", []upstream.Outcome{upstream.TimedOut}, true},
		{"serverError", []upstream.Outcome{upstream.ServerError}, false},
		{"cancelled", []upstream.Outcome{upstream.Cancelled}, false},
		{"cancelledBetween", []upstream.Outcome{upstream.Cancelled, upstream.Reset}, true},
		{"okBetween", []upstream.Outcome{upstream.OK, upstream.Reset}, false},
		{"serverErrorBetween", []upstream.Outcome{upstream.ServerError, upstream.Reset}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, upstream.Config{Ejection: upstream.Ejection{Base: time.Hour}})
			w.serve(weighted(route.BalanceRoundRobin, 0, 0))
			h := w.Handle(shop)
			fail(t, h, "a", 4, upstream.Reset)
			for _, outcome := range test.fifth {
				fail(t, h, "a", 1, outcome)
			}
			if got := !gets(t, h, "a"); got != test.want {
				t.Errorf("ejected: %v, want %v", got, test.want)
			}
		})
	}
	t.Run("never", func(t *testing.T) {
		w := newWorld(t, upstream.Config{Ejection: upstream.Ejection{Failures: -1}})
		w.serve(weighted(route.BalanceRoundRobin, 0, 0))
		fail(t, w.Handle(shop), "a", 100, upstream.Reset)
	})
}

// eager ejects with the first failure, for long.
var eager = upstream.Ejection{Failures: 1, Base: time.Hour, Max: time.Hour}

func TestMostEjected(t *testing.T) {
	for _, test := range []struct{ endpoints, ejected int }{{1, 0}, {2, 1}, {3, 1}, {4, 2}, {7, 3}} {
		w := newWorld(t, upstream.Config{Ejection: eager})
		w.serve(weighted(route.BalanceRoundRobin, make([]uint32, test.endpoints)...))
		h := w.Handle(shop)
		for range 50 {
			lease := pick(t, h, upstream.PickOptions{})
			lease.Done(upstream.Reset)
		}
		if got := int(w.Stats().Ejections); got != test.ejected {
			t.Errorf("%d of %d endpoints are ejected, want %d", got, test.endpoints, test.ejected)
		}
	}
}

// The rest of the endpoints gets what an ejected one does not, evenly.
func TestEjectedLosesItsTurn(t *testing.T) {
	w := newWorld(t, upstream.Config{Ejection: eager})
	w.serve(weighted(route.BalanceRoundRobin, 0, 0, 0))
	h := w.Handle(shop)
	fail(t, h, "b", 1, upstream.Reset)
	if got := count(sequence(t, h, 20)); got["a"] != 10 || got["c"] != 10 {
		t.Errorf("%v, want 10 and 10", got)
	}
}

// The keys of an ejected endpoint go to others, and those of others stay.
func TestEjectionAndHash(t *testing.T) {
	w := newWorld(t, upstream.Config{Ejection: eager})
	w.serve(weighted(route.BalanceHash, 0, 0, 0, 0))
	before := w.placement(t)
	lease := pick(t, w.Handle(shop), upstream.PickOptions{Hash: 1, HasHash: true})
	ejected := lease.Endpoint().Address()
	lease.Done(upstream.Reset)
	takers := map[string]bool{}
	for key, after := range w.placement(t) {
		switch {
		case after == ejected:
			t.Fatalf("key %d goes to the ejected endpoint", key)
		case before[key] == ejected:
			takers[after] = true
		case after != before[key]:
			t.Fatalf("key %d moved from %s to %s", key, before[key], after)
		}
	}
	if len(takers) != 3 {
		t.Errorf("the keys went to %d endpoints, want all 3", len(takers))
	}
}

// When those that are left have too much to do, Pick returns ErrOverloaded. The request is
// not sent to an endpoint that is known to fail.
func TestEjectionAndOverload(t *testing.T) {
	w := newWorld(t, upstream.Config{Ejection: eager, MaxInFlightPerEndpoint: 1})
	w.serve(weighted(route.BalanceRoundRobin, 0, 0))
	h := w.Handle(shop)
	fail(t, h, "a", 1, upstream.Reset)
	lease := pick(t, h, upstream.PickOptions{})
	defer lease.Done(upstream.OK)
	if _, err := h.Pick(upstream.PickOptions{}); !errors.Is(err, upstream.ErrOverloaded) {
		t.Errorf("error %v, want ErrOverloaded", err)
	}
}

func TestEjectionAndZones(t *testing.T) {
	b := weighted(route.BalanceRoundRobin, 0, 0, 0, 0)
	for i, zone := range []string{"a", "a", "b", "b"} {
		b.Endpoints[i].Zone = zone
	}
	b.Balancing.PreferZone = true
	w := newWorld(t, upstream.Config{Zone: "a", Ejection: eager})
	w.serve(b)
	h := w.Handle(shop)
	fail(t, h, "a", 1, upstream.Reset)
	if got := count(sequence(t, h, 30)); got["b"] != 10 || got["c"] != 10 || got["d"] != 10 {
		t.Errorf("%v; half of the zone is not enough, so all that are left should get 10", got)
	}
}

func TestEjectedStaysThroughChanges(t *testing.T) {
	w := newWorld(t, upstream.Config{Ejection: eager})
	w.serve(weighted(route.BalanceRoundRobin, 0, 0, 0))
	h := w.Handle(shop)
	fail(t, h, "a", 1, upstream.Reset)
	w.serve(weighted(route.BalanceRoundRobin, 0, 0))
	if gets(t, h, "a") {
		t.Error("a change of the table brought the ejected endpoint back")
	}
	// The only one that is left comes back: an unhealthy endpoint is better than none.
	w.serve(weighted(route.BalanceRoundRobin, 0))
	if !gets(t, h, "a") || w.state(t, pods(1)[0]).Health != upstream.HealthReady {
		t.Error("the only endpoint is still ejected")
	}
}

// Requests that began before the ejection do not count for the endpoint now.
func TestLateOutcomes(t *testing.T) {
	w := newWorld(t, upstream.Config{Ejection: eager})
	w.serve(weighted(route.BalanceRoundRobin, 0, 0))
	h := w.Handle(shop)
	late, later := toEndpoint(t, h, "a"), toEndpoint(t, h, "a")
	fail(t, h, "a", 1, upstream.Reset)
	late.Done(upstream.OK)
	later.Done(upstream.Reset)
	if gets(t, h, "a") {
		t.Error("a success from before the ejection brought the endpoint back")
	}
	if got := w.Stats().Ejections; got != 1 {
		t.Errorf("%d ejections, want 1", got)
	}
}

func TestTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, upstream.Config{Ejection: upstream.Ejection{Failures: 1}})
		w.serve(weighted(route.BalanceRoundRobin, 0, 0))
		h := w.Handle(shop)
		health := func() upstream.Health { return w.state(t, pods(1)[0]).Health }
		fail(t, h, "a", 1, upstream.Reset)
		if got := w.state(t, pods(1)[0]); got.Health != upstream.HealthEjected || got.EjectedFor != time.Second {
			t.Errorf("%s for %v, want ejected for 1s", got.Health, got.EjectedFor)
		}
		<-time.After(time.Second)
		if health() != upstream.HealthHalfOpen {
			t.Errorf("health %s, want trial", health())
		}
		// A response that goes on for hours has come all the same.
		long := toEndpoint(t, h, "a")
		long.ResponseStarted()
		if health() != upstream.HealthReady {
			t.Errorf("health %s after an answer, want ready", health())
		}
		// One that never ends does not keep others away for ever.
		fail(t, h, "a", 1, upstream.Reset)
		<-time.After(time.Second)
		stuck := toEndpoint(t, h, "a")
		<-time.After(time.Second)
		lease := toEndpoint(t, h, "a")
		lease.Done(upstream.OK)
		if health() != upstream.HealthReady {
			t.Errorf("health %s after a success, want ready", health())
		}
		stuck.Done(upstream.Cancelled)
		long.Done(upstream.OK)
	})
}

// The whole of it over sockets: the endpoint stops, and comes back at the same
// address. No client is sent there before a connection was made.
func TestConnectIsRetriedInTheBackground(t *testing.T) {
	well := newPod(t)
	// An address of its own, so that no other process takes the port meanwhile.
	ill := runPod(t, listen(t, "127.83.12.7:0"))
	w := newWorld(t, upstream.Config{Ejection: upstream.Ejection{Failures: 2, Base: 2 * time.Millisecond}})
	b := cart(ill.address, well.address)
	b.Balancing.Method = route.BalanceRoundRobin
	w.serve(b)
	h := w.Handle(shop)
	roundTrip(t, h)
	roundTrip(t, h)
	ill.stop()

	for range 2 {
		lease := pick(t, h, upstream.PickOptions{})
		if lease.Endpoint().Address() != ill.address {
			lease.Done(upstream.Cancelled)
			lease = pick(t, h, upstream.PickOptions{})
		}
		if conn, err := lease.Connect(t.Context(), 0, true); err == nil {
			conn.Close()
			t.Fatal("there is a connection to a backend that stopped")
		}
		lease.Done(upstream.ConnectFailed)
	}
	if got := w.state(t, ill.address); got.Health != upstream.HealthEjected || got.Idle != 0 {
		t.Fatalf("health %s, %d idle; want ejected, and no connections", got.Health, got.Idle)
	}
	failures := w.Stats().ConnectFailures
	programs.Until(t, "some more tries", func() bool { return w.Stats().ConnectFailures > failures+3 })
	for range 10 {
		lease := pick(t, h, upstream.PickOptions{})
		if lease.Endpoint().Address() == ill.address {
			t.Fatal("a client was sent to a backend that is away")
		}
		lease.Done(upstream.OK)
	}

	runPod(t, listen(t, ill.address))
	programs.Until(t, "the trial", func() bool { return w.state(t, ill.address).Health == upstream.HealthHalfOpen })
	var lease upstream.Lease
	programs.Until(t, "a request for it", func() bool {
		lease = pick(t, h, upstream.PickOptions{})
		if lease.Endpoint().Address() == ill.address {
			return true
		}
		lease.Done(upstream.OK)
		return false
	})
	conn := connect(t, &lease)
	if !conn.Reused() {
		t.Error("the connection of the retry was not kept")
	}
	get(t, conn)
	conn.Release()
	lease.Done(upstream.OK)
	if got := w.state(t, ill.address); got.Health != upstream.HealthReady || got.Failures != 0 {
		t.Errorf("health %s with %d failures, want ready without", got.Health, got.Failures)
	}
}

// An endpoint that leaves, or a Set that is closed, ends the tries; goleak
// would find them.
func TestRetriesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, upstream.Config{Ejection: upstream.Ejection{Failures: 1}})
		w.serve(weighted(route.BalanceRoundRobin, 0, 0))
		fail(t, w.Handle(shop), "a", 1, upstream.ConnectFailed)
		if got := w.state(t, pods(1)[0]); got.Health != upstream.HealthEjected || got.EjectedFor != 0 {
			t.Errorf("%s for %v, want ejected without an end", got.Health, got.EjectedFor)
		}
		w.become(&route.Table{})
		<-time.After(2 * time.Second)
		synctest.Wait()
		w.serve(weighted(route.BalanceRoundRobin, 0, 0))
		fail(t, w.Handle(shop), "a", 1, upstream.ConnectFailed)
		w.Close()
	})
}

func TestOutcomesInParallel(t *testing.T) {
	w := newWorld(t, upstream.Config{Ejection: upstream.Ejection{Failures: 2, Base: time.Microsecond, Max: time.Millisecond}})
	w.serve(weighted(route.BalanceLeastRequests, 0, 0, 0, 0))
	h := w.Handle(shop)
	var running sync.WaitGroup
	for worker := range 8 {
		running.Go(func() {
			for i := range 2000 {
				lease, err := h.Pick(upstream.PickOptions{})
				if err != nil {
					t.Errorf("pick: %v", err)
					return
				}
				outcome := upstream.OK
				if (i+worker)%3 > 0 {
					outcome = upstream.Reset
				}
				lease.Done(outcome)
				if i%100 == 0 && worker == 0 {
					w.serve(weighted(route.BalanceLeastRequests, make([]uint32, 2+i/100%4)...))
				}
			}
		})
	}
	running.Wait()
	for _, endpoint := range w.Snapshot()[0].Endpoints {
		if endpoint.InFlight != 0 {
			t.Errorf("%d requests in flight on %s at the end", endpoint.InFlight, endpoint.Address)
		}
	}
}
