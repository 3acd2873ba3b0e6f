package resilience

import (
	"net/netip"
	"testing"
	"time"

	"golang.org/x/net/http2"

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
)

// manners are the ways to be slow, for a number of connections altogether.
func manners(count int) []*manner {
	part := func(percent int) int { return count * percent / 100 }
	all := []*manner{
		{name: "silent", point: "web", count: part(15), patience: headerTimeout},
		{name: "header drip", point: "web", count: part(30), first: "GET / HTTP/1.1\r\nHost: slow.test\r\nX-Drip: ", drip: "x", patience: headerTimeout},
		{name: "header drip elsewhere", point: "side", count: part(20), first: "G", drip: "G", patience: headerTimeout},
		{name: "body drip", point: "web", count: part(10), first: "POST /slow HTTP/1.1\r\nHost: slow.test\r\nContent-Length: 1000000\r\n\r\n", drip: "x"},
		{name: "chunk drip", point: "side", count: part(4), first: "POST /slow HTTP/1.1\r\nHost: slow.test\r\nTransfer-Encoding: chunked\r\n\r\n", drip: "1\r\nx\r\n"},
		{name: "no reading", point: "web", count: part(1), first: "GET /large HTTP/1.1\r\nHost: slow.test\r\n\r\n", buffer: 4 << 10, deaf: true},
	}
	if long() {
		all[3].patience, all[4].patience, all[5].patience = rateTimeout+slack, rateTimeout+slack, writeTimeout+slack
	}
	if edgeprocess.ServesHTTP2 {
		all = append(all,
			&manner{name: "half a preface", point: "web", count: part(5), first: http2.ClientPreface[:10], patience: headerTimeout},
			&manner{name: "idle after the preface", point: "web", count: part(10), first: http2.ClientPreface, patience: headerTimeout},
		)
	}
	if edgeprocess.ServesTLS {
		// A handshake record of 512 bytes of which the last never comes.
		all = append(all, &manner{name: "stalled handshake", point: "secure", count: part(5), first: "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", patience: headerTimeout})
	}
	// The rest, so that there are as many as were asked for.
	for _, m := range all {
		count -= m.count
	}
	all[1].count += count
	return all
}

// TestSlow: ten thousand slow connections are put up with for as long as the
// timeouts say and not longer, and an honest client does not notice.
func TestSlow(t *testing.T) {
	count := number(t, "RESILIENCE_CONNECTIONS", 10_000)
	// Bodies that drip have a connection to the backend each.
	openFiles(t, uint64(count*13/10+1500))
	points := []string{"web", "side"}
	var arguments []string
	if edgeprocess.ServesTLS {
		points = append(points, "secure")
		arguments = append(arguments, edgeprocess.TLSArgument("secure"))
	}
	edge := startEdge(t, points, arguments...)
	before := watch(edge.Address("web"), baseline)
	start := measure(t, edge)
	kinds := manners(count)
	c := newCrowd(t)
	stop := honest(edge.Address("web"))
	gatherCrowd(t, c, kinds, edge)
	coming := stop()
	full := edge.Memory(t)
	t.Logf("%d connections in %v; meanwhile %v", count, time.Since(c.begun).Round(time.Millisecond), coming)
	t.Logf("memory: %.1f kB for each connection (%d MB before, %d MB with all)", float64(full-start.memory)/float64(count)/1024, start.memory>>20, full>>20)
	stop = honest(edge.Address("web"))
	c.live(time.Now().Add(longestPatience(kinds)+2*slack+5*time.Second), func() bool { return culled(kinds) })
	during := stop()
	during.errors = append(during.errors, coming.errors...)
	compare(t, before, during)
	// What this machine is late with, whoever else keeps it busy, shows in the
	// honest client's worst wait.
	late := slack + max(before.worst, coming.worst, during.worst)
	for _, kind := range kinds {
		t.Logf("%-22s %5d of %5d closed, after %v at most", kind.name, kind.closed, kind.count, kind.longest.Round(10*time.Millisecond))
		if kind.patience > 0 && (kind.closed < kind.count || kind.longest > kind.patience+late) {
			t.Errorf("%s: %d of %d were closed, after %v at most; %v is fine", kind.name, kind.closed, kind.count, kind.longest, kind.patience+late)
		}
		if kind.patience == 0 && kind.closed > 0 {
			t.Errorf("%s: %d were closed too soon, after %v", kind.name, kind.closed, kind.longest)
		}
	}
	c.dismiss()
	settles(t, edge, start)
}

// gatherCrowd opens all connections, in an order in which every kind comes from
// the beginning, and no faster than a listen queue takes.
func gatherCrowd(t *testing.T, c *crowd, kinds []*manner, edge *edgeprocess.Edge) {
	t.Helper()
	const batch, pause = 100, 20 * time.Millisecond
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

// culled reports whether everybody is gone whom the edge has to put out.
func culled(kinds []*manner) bool {
	for _, kind := range kinds {
		if kind.patience > 0 && kind.closed < kind.count {
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
