package upstream_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/route"
)

// released is the backend shop with an endpoint for each letter: s is stable, c is the
// canary, x has no revision, and a capital letter drains.
func released(endpoints string, stable, canary uint32) *route.Backend {
	b := cart(pods(len(endpoints))...)
	for i, kind := range endpoints {
		b.Endpoints[i].Revision = map[rune]route.Revision{'s': route.RevisionStable, 'c': route.RevisionCanary, 'S': route.RevisionStable, 'C': route.RevisionCanary}[kind]
		if kind == 'S' || kind == 'C' {
			b.Endpoints[i].State = route.EndpointDraining
		}
	}
	b.Release = &route.Release{
		Namespace: "shop", Name: "web",
		Stable: route.RevisionShare{Hash: "7c9f44", Weight: stable}, Canary: route.RevisionShare{Hash: "5d8b66", Weight: canary},
	}
	return b
}

// revisions counts the revisions of n picks; an endpoint without one is empty.
func revisions(t *testing.T, h *upstream.Handle, n int, choice func(i int) upstream.PickOptions) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for i := range n {
		lease := pick(t, h, choice(i))
		name := ""
		if revision := lease.Revision(); revision != nil {
			name = revision.Name()
		}
		counts[name]++
		lease.Done(upstream.OK)
	}
	return counts
}

func plainly(int) upstream.PickOptions { return upstream.PickOptions{} }

// TestShares: requests are divided by weight, whatever the number of endpoints and the
// method of balancing, and only among endpoints that have a revision.
func TestShares(t *testing.T) {
	const n = 4000
	for _, test := range []struct {
		name           string
		endpoints      string
		stable, canary uint32
		want           float64 // the share of the canary
	}{
		{"tenth", "sssc", 90, 10, 0.1},
		{"manyCanaries", "scccc", 75, 25, 0.25},
		{"half", "sc", 1, 1, 0.5},
		{"unknownGetsNothing", "scxxxx", 50, 50, 0.5},
		{"notYet", "ssc", 100, 0, 0},
		{"all", "ssc", 0, 100, 1},
		{"canaryGone", "ss", 50, 50, 0},
		{"canaryDrains", "ssC", 50, 50, 0},
		{"stableGone", "cc", 90, 10, 1},
		{"stableGoneWithoutWeight", "cx", 100, 0, 1},
		{"noWeights", "sc", 0, 0, 0},
	} {
		for _, method := range []route.BalanceMethod{"", route.BalanceRoundRobin, route.BalanceLeastTime, route.BalanceHash} {
			t.Run(test.name+"/"+string(method), func(t *testing.T) {
				w := newWorld(t, upstream.Config{})
				b := released(test.endpoints, test.stable, test.canary)
				b.Balancing.Method = method
				w.serve(b)
				counts := revisions(t, w.Handle(shop), n, func(i int) upstream.PickOptions {
					return upstream.PickOptions{Hash: rand.Uint64(), HasHash: true}
				})
				got := float64(counts["canary"]) / n
				// The deviation of 4000 draws is below 0.008; six of them never come.
				if got < test.want-0.048 || got > test.want+0.048 || counts[""] > 0 || (test.want == 0 || test.want == 1) && got != test.want {
					t.Errorf("%v: a share of %.3f, want %.3f", counts, got, test.want)
				}
			})
		}
	}
}

// TestUnknownOnly: endpoints that are not known yet are used while there is no other.
func TestUnknownOnly(t *testing.T) {
	w := newWorld(t, upstream.Config{})
	w.serve(released("xx", 50, 50))
	if counts := revisions(t, w.Handle(shop), 10, plainly); counts[""] != 10 {
		t.Errorf("%v", counts)
	}
}

// TestSelectedRevision: a request that selects a revision gets it, also without a weight,
// and the other if it is gone.
func TestSelectedRevision(t *testing.T) {
	canary := func(int) upstream.PickOptions { return upstream.PickOptions{Revision: route.RevisionCanary} }
	w := newWorld(t, upstream.Config{})
	w.serve(released("ssc", 100, 0))
	if counts := revisions(t, w.Handle(shop), 50, canary); counts["canary"] != 50 {
		t.Errorf("%v", counts)
	}
	if found := w.Snapshot(); len(found) != 1 || found[0].Release != "web" {
		t.Errorf("the snapshot is %+v", found)
	}
	w.serve(released("ss", 100, 0))
	if counts := revisions(t, w.Handle(shop), 50, canary); counts["stable"] != 50 {
		t.Errorf("without a canary: %v", counts)
	}
}

// TestRetryLeavesRevision: the only endpoint of a revision that has just failed is not
// tried again while the other revision has one.
func TestRetryLeavesRevision(t *testing.T) {
	w := newWorld(t, upstream.Config{})
	w.serve(released("sc", 0, 100))
	first := pick(t, w.Handle(shop), upstream.PickOptions{})
	failed := first.Endpoint()
	first.Done(upstream.OK)
	// A revision without a weight is not a refuge: the same endpoint is tried again.
	if counts := revisions(t, w.Handle(shop), 20, func(int) upstream.PickOptions { return upstream.PickOptions{Avoid: failed} }); counts["canary"] != 20 {
		t.Errorf("without a weight: %v", counts)
	}
	w.serve(released("sc", 1, 99))
	if counts := revisions(t, w.Handle(shop), 20, func(int) upstream.PickOptions { return upstream.PickOptions{Avoid: failed} }); counts["stable"] != 20 {
		t.Errorf("%v", counts)
	}
}

// TestClientsByHash: a client keeps its revision, and a growing share moves no client
// back.
func TestClientsByHash(t *testing.T) {
	w := newWorld(t, upstream.Config{})
	on := map[uint64]bool{}
	for _, weight := range []uint32{5, 20, 50, 100} {
		w.serve(released("ssc", 100-weight, weight))
		h := w.Handle(shop)
		count := 0
		for client := range uint64(2000) {
			choice := upstream.PickOptions{Client: client, HasClient: true}
			for range 2 {
				lease := pick(t, h, choice)
				canary := lease.Revision().Name() == "canary"
				lease.Done(upstream.OK)
				if on[client] && !canary {
					t.Fatalf("at %d%% client %d went back", weight, client)
				}
				on[client] = canary
			}
			if on[client] {
				count++
			}
		}
		if share := float64(count) / 20; share < float64(weight)-6 || share > float64(weight)+6 {
			t.Errorf("%.1f%% of the clients, want %d%%", share, weight)
		}
	}
}

// TestStickyRevision: a client stays at its endpoint, then at its revision, and leaves a
// revision that has no share any more.
func TestStickyRevision(t *testing.T) {
	sticky := func(endpoints string, stable, canary uint32) *route.Backend {
		b := released(endpoints, stable, canary)
		b.Sticky = &route.StickyCookie{}
		return b
	}
	w := newWorld(t, upstream.Config{})
	w.serve(sticky("sscc", 50, 50))
	h := w.Handle(shop)
	values := map[string]string{} // by address
	for len(values) < 4 {
		lease := pick(t, h, upstream.PickOptions{})
		values[lease.Endpoint().Address()] = lease.StickyValue()
		lease.Done(upstream.OK)
	}
	all := pods(4)
	expect := func(what, cookie, address, revision string) {
		t.Helper()
		for range 30 {
			lease := pick(t, h, upstream.PickOptions{Sticky: cookie})
			if address != "" && lease.Endpoint().Address() != address || lease.Revision().Name() != revision {
				t.Fatalf("%s: %s of %s", what, lease.Endpoint().Address(), lease.Revision().Name())
			}
			lease.Done(upstream.OK)
		}
	}
	expect("its endpoint", values[all[2]], all[2], "canary")
	expect("its endpoint", values[all[0]], all[0], "stable")
	w.serve(sticky("sscc", 99, 1))
	expect("small share", values[all[2]], all[2], "canary")
	// The endpoint of the client is gone, another of its revision is there.
	gone := sticky("sscc", 50, 50)
	gone.Endpoints = append(gone.Endpoints[:2], gone.Endpoints[3])
	w.serve(gone)
	expect("endpoint gone", values[all[2]], all[3], "canary")
	w.serve(sticky("sscc", 100, 0))
	expect("rolled back", values[all[2]], "", "stable")
	w.serve(sticky("ss", 50, 50))
	expect("revision gone", values[all[2]], "", "stable")
	// Without a Release the endpoint of the cookie is found as before.
	plain := sticky("ssss", 0, 0)
	plain.Release = nil
	w.serve(plain)
	lease := pick(t, h, upstream.PickOptions{Sticky: values[all[1]]})
	defer lease.Done(upstream.OK)
	if lease.Endpoint().Address() != all[1] || strings.Contains(lease.StickyValue(), "~") || lease.Revision() != nil {
		t.Errorf("after the release: %s %s", lease.Endpoint().Address(), lease.StickyValue())
	}
}

// TestWeightsLive: a change of weights counts for the next request, and the endpoints
// keep their state.
func TestWeightsLive(t *testing.T) {
	w := newWorld(t, upstream.Config{})
	w.serve(released("sc", 100, 0))
	h := w.Handle(shop)
	held := pick(t, h, upstream.PickOptions{Revision: route.RevisionCanary})
	for i := range uint32(20) {
		w.serve(released("sc", 100*(i%2), 100*((i+1)%2)))
		want := map[uint32]string{0: "canary", 1: "stable"}[i%2]
		if counts := revisions(t, h, 20, plainly); counts[want] != 20 {
			t.Fatalf("change %d: %v, want %s", i, counts, want)
		}
	}
	other := pick(t, h, upstream.PickOptions{Revision: route.RevisionCanary})
	if other.Endpoint() != held.Endpoint() {
		t.Error("the endpoint was replaced")
	}
	other.Done(upstream.OK)
	held.Done(upstream.OK)
}

// TestRevisionCounts: counts go on through changes of the table and through an end of the
// release, and are those of the whole Release.
func TestRevisionCounts(t *testing.T) {
	w := newWorld(t, upstream.Config{})
	w.serve(released("sc", 50, 50))
	observe := func(name route.Revision, failed bool) {
		lease := pick(t, w.Handle(shop), upstream.PickOptions{Revision: name})
		lease.Revision().Observe(failed, 3e6)
		lease.Done(upstream.OK)
	}
	observe(route.RevisionStable, false)
	w.serve(released("ssc", 20, 80))
	observe(route.RevisionCanary, true)
	observe(route.RevisionCanary, false)
	found := w.Releases()
	if len(found) != 1 || len(found[0].Revisions) != 2 || found[0].Name != "web" {
		t.Fatalf("%+v", found)
	}
	stable, canary := found[0].Revisions[0], found[0].Revisions[1]
	if stable.Name != "stable" || stable.Requests != 1 || canary.Requests != 2 || canary.Errors != 1 || canary.Hash != "5d8b66" || len(canary.Latency) == 0 {
		t.Errorf("%+v", found)
	}
	plain := released("sc", 1, 1)
	plain.Release = nil
	w.serve(plain)
	if ended := w.Releases(); len(ended) != 1 || !ended[0].Ended || ended[0].Revisions[1].Requests != 2 {
		t.Errorf("after the end: %+v", ended)
	}
	w.serve(released("sc", 50, 50))
	observe(route.RevisionStable, false)
	if again := w.Releases(); len(again) != 1 || again[0].Ended || again[0].Revisions[0].Requests != 2 || again[0].Revisions[0].Weight != 50 {
		t.Errorf("%+v", again)
	}
	// Another canary of the same Release takes the place of the one before.
	other := released("sc", 50, 50)
	other.Release.Canary.Hash = "pending"
	w.serve(other)
	if all := w.Releases(); len(all) != 1 || len(all[0].Revisions) != 3 || !all[0].Revisions[1].Ended || all[0].Revisions[2].Ended || all[0].Revisions[2].Weight != 50 {
		t.Errorf("%+v", all)
	}
	// Another object of the same name begins at 0.
	next := released("sc", 50, 50)
	next.Release.UID = "another"
	w.serve(next)
	if both := w.Releases(); len(both) != 2 || !both[0].Ended || both[1].Ended || both[1].Revisions[0].Requests != 0 {
		t.Errorf("%+v", both)
	}
}

// TestReleasePicksDoNotAllocate: neither does a backend with a release.
func TestReleasePicksDoNotAllocate(t *testing.T) {
	w := newWorld(t, upstream.Config{})
	w.serve(released("ssc", 90, 10))
	h := w.Handle(shop)
	if n := testing.AllocsPerRun(100, func() {
		lease, _ := h.Pick(upstream.PickOptions{})
		lease.Revision().Observe(false, 3e6)
		lease.Done(upstream.OK)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestOverdue: a request to the canary is overdue after twice the time in which the stable
// revision responds, but for one of 1,000 requests.
func TestOverdue(t *testing.T) {
	const quick, long = 20 * time.Millisecond, 950 * time.Millisecond
	for _, test := range []struct {
		name        string
		quick, long int // responses of the stable revision
		waited      time.Duration
		want        bool
	}{
		{"quick", 200, 0, time.Second, true},
		{"tooEarly", 200, 0, 999 * time.Millisecond, false},
		{"tooFewKnown", 199, 0, time.Minute, false},
		{"long", 0, 200, 1800 * time.Millisecond, false},
		{"twiceAsLong", 0, 200, 2200 * time.Millisecond, true},
		{"oneIsLong", 999, 1, time.Second, true},
		{"twoAreLong", 998, 2, time.Second, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, upstream.Config{})
			w.serve(released("sc", 1, 1))
			h := w.Handle(shop)
			of := map[string]*upstream.Revision{}
			for _, name := range []route.Revision{route.RevisionStable, route.RevisionCanary} {
				lease := pick(t, h, upstream.PickOptions{Revision: name})
				of[string(name)] = lease.Revision()
				lease.Done(upstream.OK)
			}
			stable, canary := of["stable"], of["canary"]
			for range test.quick {
				stable.Observe(false, quick)
			}
			for range test.long {
				stable.Observe(false, long)
			}
			if got := canary.Overdue(test.waited); got != test.want {
				t.Errorf("Overdue is %t, want %t", got, test.want)
			}
			if stable.Overdue(time.Hour) {
				t.Error("the stable revision is overdue")
			}
		})
	}
}
