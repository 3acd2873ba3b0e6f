package resilience

import (
	"testing"
	"time"

	"slipway.dev/slipway/test/conformance/edgeprocess"
)

// asideTime is how long an attack on another edge is watched at most.
const asideTime = 5 * time.Second

// siege is an edge under attack.
type siege struct {
	edge     *edgeprocess.Edge
	from     source
	duration time.Duration
	client   honestly
}

// TestFloods: an attacker loses its connection, and no other client notices.
func TestFloods(t *testing.T) {
	s := siege{edge: startEdge(t, []string{"web"}), from: ownAddress, duration: floodTime(t), client: manyConns}
	before, start := s.calm(t)
	var other *edgeprocess.Edge
	if long() {
		other = startEdge(t, []string{"web"})
	}
	for _, f := range floods() {
		t.Run(f.name, func(t *testing.T) {
			usual := s.usual(before)
			if long() {
				s.aside(t, f, other)
			}
			refused := s.refused(t)
			s.run(t, f, usual)
			if refused = s.refused(t) - refused; !f.tolerated && refused == 0 {
				t.Error("no attacker was banned, and each reconnected again and again")
			}
			t.Logf("%.0f of the connections were refused", refused)
		})
	}
	settles(t, s.edge, start)
}

// TestFloodsByMany: the same when no attacker comes twice from one address.
func TestFloodsByMany(t *testing.T) {
	s := siege{edge: startEdge(t, []string{"web"}), from: anyAddress, duration: floodTime(t), client: manyConns}
	before, start := s.calm(t)
	for _, f := range floods() {
		if !f.byMany {
			continue
		}
		t.Run(f.name, func(t *testing.T) { s.run(t, f, s.usual(before)) })
	}
	if n := s.refused(t); n > 0 {
		t.Errorf("%.0f connections were refused, and nobody had come twice", n)
	}
	settles(t, s.edge, start)
}

// TestFloodsNextDoor: an attacker that shares the address of the honest client
// is banned. Open connections stay open.
func TestFloodsNextDoor(t *testing.T) {
	s := siege{edge: startEdge(t, []string{"web"}), from: honestAddress, duration: floodTime(t), client: oneConn}
	before, start := s.calm(t)
	f := floods()[0]
	s.run(t, f, s.usual(before))
	if s.refused(t) == 0 {
		t.Error("the attacker was not banned")
	}
	settles(t, s.edge, start)
}

// TestFloodsUnheld: without holds, an attacker may come again and again, and
// still no other client notices.
func TestFloodsUnheld(t *testing.T) {
	edge := startEdge(t, []string{"web"}, "--entryPoints.web.transport.maxHold=0s")
	s := siege{edge: edge, from: honestAddress, duration: floodTime(t), client: manyConns}
	before, start := s.calm(t)
	f := floods()[0]
	s.run(t, f, s.usual(before))
	if n := s.refused(t); n > 0 {
		t.Errorf("%.0f connections were refused", n)
	}
	settles(t, edge, start)
}

// calm watches the honest client before any attack.
func (s *siege) calm(t *testing.T) (report, vitals) {
	t.Helper()
	s.watch(baseline / 2) // it is warm now
	before := s.watch(baseline)
	return before, measure(t, s.edge)
}

// usual is what the honest client is used to. With time for it, that is as many
// requests as during the flood, right before it: the machine is not the same
// from one minute to the next.
func (s *siege) usual(before report) report {
	if long() {
		return s.watch(s.duration)
	}
	return before
}

func (s *siege) watch(duration time.Duration) report {
	return watch(s.edge.Address("web"), s.client, duration)
}

// refused is how many connections were refused because of floods.
func (s *siege) refused(t *testing.T) float64 {
	t.Helper()
	return s.edge.Metric(t, "slipway_edge_connections_refused_total", `reason="banned"`)
}

// aside floods another edge on the same machine, and reports how the honest client
// of this one fares. What it then loses, it loses to an attacker that uses the
// same processors, and to nothing that the edge could do about it.
func (s *siege) aside(t *testing.T, f flood, other *edgeprocess.Edge) {
	l := &lives{}
	stop := honest(s.edge.Address("web"), s.client)
	stopAttack := f.begins(t, other.Address("web"), s.from, l)
	began := time.Now()
	for !l.enough(f, time.Since(began), min(asideTime, s.duration)) {
		<-time.After(50 * time.Millisecond)
	}
	report := stop()
	stopAttack()
	t.Logf("while another edge is flooded: %v", report)
}

// run floods for a while and checks the honest client, the attackers and the edge.
func (s *siege) run(t *testing.T, f flood, before report) {
	t.Helper()
	edge, address := s.edge, s.edge.Address("web")
	start, work := measure(t, edge), edge.Work(t)
	l := &lives{}
	stop := honest(address, s.client)
	stopAttack := f.begins(t, address, s.from, l)
	began := time.Now()
	peak := edge.Memory(t)
	for !l.enough(f, time.Since(began), s.duration) {
		<-time.After(50 * time.Millisecond)
		peak = max(peak, edge.Memory(t))
	}
	lasted := time.Since(began)
	compare(t, before, stop(), floodFloor())
	stopAttack()
	grown := peak - start.memory
	t.Logf("%d connections were ended by the edge, after %v at most; memory grew by %.1f MB, %.0f%% of a processor was used",
		l.closed, l.longest.Round(time.Millisecond), float64(grown)/(1<<20), 100*(edge.Work(t)-work).Seconds()/lasted.Seconds())
	if !f.tolerated && l.closed < closings*attackers {
		t.Errorf("the edge ended %d connections of %d attackers", l.closed, attackers)
	}
	if grown > memoryLimit() {
		t.Errorf("memory grew by %d MB, and not more than %d MB is fine", grown>>20, memoryLimit()>>20)
	}
	// Connections to the backend are kept for a while; the end of all floods
	// waits for those.
	becomes(t, "goroutines", start.goroutines+spare, func() int { return edge.Goroutines(t) })
	becomes(t, "client connections", spare, func() int { return int(edge.Metric(t, "slipway_edge_connections_open", "")) })
}
