package smuggling

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"slipway.dev/slipway/internal/route"
	"slipway.dev/slipway/test/conformance/edgeprocess"
)

// least is how many cases there have to be.
const least = 600

// stage is an edge before all backends: one entry point for each.
type stage struct {
	edge     *edgeprocess.Edge
	backends []*backend
	taps     []*tap
}

func setStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{backends: startBackends(t)}
	table := &route.Table{}
	var points []string
	var turns atomic.Int64
	for _, b := range s.backends {
		p := openTap(t, b.socket, &turns)
		s.taps = append(s.taps, p)
		points = append(points, b.name)
		behind := edgeprocess.Backend(b.name, p.address())
		table.Backends = append(table.Backends, behind)
		table.Rules = append(table.Rules, &route.Rule{
			ID: route.ID{Name: b.name}, EntryPoints: []string{b.name}, Backends: edgeprocess.To(behind),
		})
	}
	s.edge = edgeprocess.Start(t, edgeprocess.Options{EntryPoints: points, Table: table})
	return s
}

// strike ends everything in an order in which nothing is lost: after it, taps
// and ledgers are complete.
func (s *stage) strike() {
	s.edge.Kill()
	for i, p := range s.taps {
		p.finish()
		s.backends[i].finish()
	}
}

// play sends all cases through the edge to every backend at the same time.
func (s *stage) play(cases []sample) [][]outcome {
	outcomes := make([][]outcome, len(s.backends))
	var working sync.WaitGroup
	for i, b := range s.backends {
		working.Go(func() { outcomes[i] = sendAll(s.edge.Address(b.name), cases, i*len(cases)+1) })
	}
	working.Wait()
	return outcomes
}

func TestHTTP1(t *testing.T) {
	cases := append(corpus(), combinations(t)...)
	if len(cases) < least {
		t.Fatalf("there are %d cases, fewer than %d", len(cases), least)
	}
	s := setStage(t)
	outcomes := s.play(cases)
	s.strike()
	all := make([]evidence, len(s.backends))
	for i, b := range s.backends {
		var problems []error
		all[i], problems = gather(s.taps[i], b.ledger)
		for _, problem := range problems {
			t.Errorf("%s: %v", b.name, problem)
		}
		var count tally
		for _, o := range outcomes[i] {
			report(t, b.name, o, all[i].judge(o, &count))
		}
		t.Logf("%-5s %d cases: %d served, %d refused, %d left unanswered; %d requests declined by the backend",
			b.name, len(cases), count.served, count.refused, count.dropped, count.declined)
		if count.served < 50 || count.refused < 200 {
			t.Errorf("%s: too little of one kind: %+v", b.name, count)
		}
	}
	for number, c := range cases {
		first := anonymous(all[0].written[outcomes[0][number].nonce])
		for i := 1; i < len(all); i++ {
			if other := anonymous(all[i].written[outcomes[i][number].nonce]); other != first {
				t.Errorf("%s: %s was sent\n%s\nand %s\n%s", c.name, s.backends[0].name, first, s.backends[i].name, other)
			}
		}
	}
}

// report fails the test with everything that is known about a case.
func report(t *testing.T, backend string, o outcome, problems []error) {
	t.Helper()
	for _, problem := range problems {
		t.Errorf("%s: %s: %v\nsent %.600q\ngot  %.600q", backend, o.sample.name, problem, nonced(o.sample.raw, o.nonce), o.got)
	}
}

// TestPotency: without an edge, backends disagree about many of the cases. The
// smuggled request is executed by one of them and not by the other.
func TestPotency(t *testing.T) {
	cases := corpus()
	backends := startBackends(t)
	var working sync.WaitGroup
	for i, b := range backends {
		working.Go(func() { sendAll(b.socket, cases, i*len(cases)+1) })
	}
	working.Wait()
	readings := make([]map[string]string, len(backends))
	for i, b := range backends {
		b.finish()
		readings[i] = map[string]string{}
		for _, r := range b.ledger.records {
			mark := nonceOf(r)
			readings[i][mark] += noncePattern.ReplaceAllString(fmt.Sprintln(r), stamp)
		}
	}
	differ := 0
	for number := range cases {
		first := readings[0][nonce(number+1)]
		for i := 1; i < len(backends); i++ {
			if readings[i][nonce(i*len(cases)+number+1)] != first {
				differ++
				break
			}
		}
	}
	t.Logf("without the edge, the backends read %d of %d cases differently", differ, len(cases))
	if differ < 50 {
		t.Errorf("the cases are too harmless: the backends disagree about %d of them", differ)
	}
}
