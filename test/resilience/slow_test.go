package resilience

import (
	"net/netip"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/conformance/edgeprocess"
)

const (
	// headerTimeout is how long the edge waits for a head, a handshake or the
	// first frame, and slack how much later it may notice.
	headerTimeout = 10 * time.Second
	slack         = 2 * time.Second
	// rateTimeout is after how long a body that drips is cut off, and
	// writeTimeout the same for who does not read.
	rateTimeout  = 60 * time.Second
	writeTimeout = 30 * time.Second
	// briefTimeout is what the entry point brief has instead.
	briefTimeout = 5 * time.Second

	largeRequest = "GET /large HTTP/1.1\r\nHost: slow.test\r\n\r\n"
)

// manners are the ways to be slow, for a number of connections altogether. The
// entry point brief has shorter bounds for bodies and responses, so that a short
// test sees them at work.
func manners(count int) []*manner {
	part := func(percent int) int { return count * percent / 100 }
	const upload = "POST /slow HTTP/1.1\r\nHost: slow.test\r\n"
	all := []*manner{
		{name: "header drip", point: "web", count: part(25), first: "GET / HTTP/1.1\r\nHost: slow.test\r\nX-Drip: ", drip: "x", patience: headerTimeout},
		{name: "header drip elsewhere", point: "side", count: part(20), first: "G", drip: "G", patience: headerTimeout},
		{name: "silent", point: "web", count: part(15), patience: headerTimeout},
		{name: "half a preface", point: "web", count: part(5), first: http2.ClientPreface[:10], patience: headerTimeout},
		{name: "idle after the preface", point: "web", count: part(10), first: http2.ClientPreface, patience: headerTimeout},
		// A handshake record of 512 bytes of which the last never comes.
		{name: "stalled handshake", point: "secure", count: part(5), first: "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", patience: headerTimeout},
		{name: "silent, encrypted", point: "secure", count: part(3), patience: headerTimeout},
		{name: "stalled body", point: "brief", count: part(2), first: upload + "Content-Length: 1000000\r\n\r\nx", patience: briefTimeout},
		{name: "no reading", point: "brief", count: part(1), first: largeRequest, buffer: 4 << 10, deaf: true, patience: briefTimeout},
	}
	drips := []*manner{
		{name: "body drip", point: "web", count: part(10), first: upload + "Content-Length: 1000000\r\n\r\n", drip: "x"},
		{name: "chunk drip", point: "side", count: part(3), first: upload + "Transfer-Encoding: chunked\r\n\r\n", drip: "1\r\nx\r\n"},
		{name: "no reading for long", point: "side", count: part(1), first: largeRequest, buffer: 4 << 10, deaf: true},
	}
	if long() {
		drips[0].patience, drips[1].patience, drips[2].patience = rateTimeout, rateTimeout, writeTimeout
	}
	all = append(all, drips...)
	for _, m := range all {
		count -= m.count
	}
	all[0].count += count // as many as were asked for
	return all
}

// TestSlow: ten thousand slow connections are put up with for as long as the
// timeouts allow and not longer, and an honest client does not notice.
func TestSlow(t *testing.T) {
	count := programs.Setting(t, "RESILIENCE_CONNECTIONS", 10_000)
	// Bodies that drip have a connection to the backend each.
	openFiles(t, uint64(count*13/10+1500))
	const brief = "--entryPoints.brief.transport.respondingTimeouts."
	edge := startEdge(t, []string{"web", "side", "brief", "secure"},
		edgeprocess.Encrypted("secure"), brief+"readTimeout="+briefTimeout.String(), brief+"writeTimeout="+briefTimeout.String())
	before := watch(edge.Address("web"), manyConns, baseline)
	start := measure(t, edge)
	kinds := manners(count)
	c := newCrowd(t)
	stop := honest(edge.Address("web"), manyConns)
	gatherCrowd(t, c, kinds, edge)
	coming := stop()
	full := edge.Memory(t)
	t.Logf("%d connections in %v, of which %d are open; meanwhile %v", count, time.Since(c.begun).Round(time.Millisecond), len(c.members), coming)
	t.Logf("memory: %.1f kB for each connection (%d MB before, %d MB with all)", float64(full-start.memory)/float64(count)/1024, start.memory>>20, full>>20)
	stop = honest(edge.Address("web"), manyConns)
	c.live(time.Now().Add(longestPatience(kinds)+2*slack+5*time.Second), func() bool { return culled(kinds) })
	during := stop()
	during.errors = append(during.errors, coming.errors...)
	compare(t, before, during, floor())
	// What this machine is late with, whatever else keeps it busy, shows in the
	// honest client's worst wait.
	late := slack + max(before.worst, coming.worst, during.worst)
	for _, kind := range kinds {
		if kind.deaf {
			continue
		}
		t.Logf("%-22s %5d of %5d closed, after %v at most", kind.name, kind.closed, kind.count, kind.longest.Round(10*time.Millisecond))
		if kind.patience > 0 && (kind.closed < kind.count || kind.longest > kind.patience+late) {
			t.Errorf("%s: %d of %d were closed, after %v at most; %v is fine", kind.name, kind.closed, kind.count, kind.longest, kind.patience+late)
		}
		// A short test ends before these do.
		if kind.patience == 0 && kind.closed > 0 {
			t.Errorf("%s: %d were closed too soon, after %v", kind.name, kind.closed, kind.longest)
		}
	}
	checkDeaf(t, edge, kinds)
	c.dismiss()
	settles(t, edge, start)
}

// checkDeaf: who does not read does not notice that it was put out either. The
// edge knows: those entry points have no connection left.
func checkDeaf(t *testing.T, edge *edgeprocess.Edge, kinds []*manner) {
	t.Helper()
	for _, kind := range kinds {
		if !kind.deaf || kind.patience == 0 {
			continue
		}
		open := int(edge.Metric(t, "slipway_edge_connections_open", `"`+kind.point+`"`))
		t.Logf("%-22s %5d of %5d closed", kind.name, kind.count-open, kind.count)
		if open > 0 {
			t.Errorf("%s: %d of %d are still served", kind.name, open, kind.count)
		}
	}
}

// gatherCrowd opens all connections, in an order in which every kind comes from
// the beginning, and no faster than a listen queue takes.
func gatherCrowd(t *testing.T, c *crowd, kinds []*manner, edge *edgeprocess.Edge) {
	t.Helper()
	const batch, pause = 100, 8 * time.Millisecond
	for opened := true; opened; {
		opened = false
		for _, kind := range kinds {
			address := netip.MustParseAddrPort(edge.Address(kind.point))
			for range min(batch, kind.count-kind.opened) {
				if err := c.join(kind, address); err != nil {
					t.Fatalf("%s: %v", kind.name, err)
				}
				opened = true
			}
			c.live(time.Now().Add(pause), func() bool { return false })
		}
	}
}

// culled reports whether all connections are closed that the edge has to close.
func culled(kinds []*manner) bool {
	for _, kind := range kinds {
		if kind.patience > 0 && kind.closed < kind.count && !kind.deaf {
			return false
		}
	}
	return true
}

func longestPatience(kinds []*manner) time.Duration {
	var longest time.Duration
	for _, kind := range kinds {
		longest = max(longest, kind.patience)
	}
	return longest
}
