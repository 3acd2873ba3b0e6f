package program_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"slipway.dev/slipway/internal/edge/program"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

func TestLookupAnswersLikeOracle(t *testing.T) {
	hits := make(map[bool]int)
	for seed := range uint64(600) {
		c := randomChooser(seed)
		table := c.table(1 + c.below(60))
		compiled := mustCompile(t, table)
		for range 60 {
			hits[compareWithOracle(t, compiled, table, c)]++
		}
	}
	if hits[true] < 10_000 || hits[false] < 500 {
		t.Errorf("%d requests had a rule and %d had none: the test shows little", hits[true], hits[false])
	}
}

// compareWithOracle asks for one random request and one connection, and
// reports whether a rule was found.
func compareWithOracle(t *testing.T, compiled *program.Program, table *route.Table, c *chooser) bool {
	t.Helper()
	req := c.request()
	got, want := compiled.Lookup(&req).Rule, oracle(table, &req)
	// An equal rule is as good: a change leaves it as it is.
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v\n got %s\nwant %s\n%s", req, show(got), show(want), steps(compiled, &req))
	}
	checkExplanation(t, compiled, table, &req, want)
	tcp := c.tcpRequest()
	if got, want := compiled.LookupTCP(&tcp).Route, oracleTCP(table, &tcp); !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v\n got %+v\nwant %+v", tcp, got, want)
	}
	return got != nil
}

// checkExplanation: it names the winner, and accounts for every rule of a host
// that fits.
func checkExplanation(t *testing.T, compiled *program.Program, table *route.Table, req *program.Request, want *route.Rule) {
	t.Helper()
	var winner *route.Rule
	verdicts := make(map[route.ID]program.Decision)
	for _, step := range compiled.Explain(req) {
		verdicts[step.Rule.ID] = step.Decision
		if step.Decision == program.Wins {
			winner = step.Rule
		}
		if step.Why == "" {
			t.Fatalf("no reason for %s", step.Rule.ID)
		}
	}
	if !reflect.DeepEqual(winner, want) {
		t.Fatalf("Explain says %s, want %s", show(winner), show(want))
	}
	for _, rule := range table.Rules {
		verdict := verdicts[rule.ID]
		switch {
		case rule == want && verdict == program.Wins:
		case !oracleHost(rule.Host, req.Host):
			if verdict != "" {
				t.Fatalf("%s has another host and is %s", show(rule), verdict)
			}
		case oracleExcluded(table, rule, req.Host):
			if verdict != program.Excluded {
				t.Fatalf("%s is excluded and is %s", show(rule), verdict)
			}
		case oracleFits(rule, req) && verdict != program.Outranked, !oracleFits(rule, req) && verdict != program.Differs:
			t.Fatalf("%s is %q for %+v", show(rule), verdict, req)
		}
	}
}

func show(rule *route.Rule) string {
	if rule == nil {
		return "no rule"
	}
	return fmt.Sprintf("%s priority=%d host=%q %+v fallback=%v %+v", rule.ID, rule.Priority, rule.Host, rule.HostOwner, rule.Fallback, rule.Match)
}

func steps(compiled *program.Program, req *program.Request) string {
	text := ""
	for _, step := range compiled.Explain(req) {
		text += fmt.Sprintf("%s: %s (%s)\n", show(step.Rule), step.Decision, step.Why)
	}
	return text
}

// TestApplyAnswersLikeCompile follows a table through many changes. Each
// Program matches like the oracle for its own table, also after others were
// made from it.
func TestApplyAnswersLikeCompile(t *testing.T) {
	type state struct {
		table    *route.Table
		compiled *program.Program
	}
	for seed := range uint64(150) {
		c := randomChooser(seed + 1_000_000)
		table := c.table(1 + c.below(60))
		states := []state{{table, mustCompile(t, table)}}
		for range 15 {
			// Mostly the newest one changes, sometimes an older one: both lines
			// share what they came from.
			from := states[len(states)-1]
			if c.oneIn(4) {
				from = states[c.below(len(states))]
			}
			to := c.changed(from.table)
			change := route.Diff(from.table, to)
			next, err := from.compiled.Apply(&change)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			checkContents(t, next, to)
			states = append(states, state{to, next})
		}
		for _, s := range states {
			for range 12 {
				compareWithOracle(t, s.compiled, s.table, c)
			}
		}
	}
}

// checkContents: a Program has the rules and backends of its table, and no
// others.
func checkContents(t *testing.T, compiled *program.Program, table *route.Table) {
	t.Helper()
	if compiled.Rules() != len(table.Rules) {
		t.Fatalf("%d rules, want %d", compiled.Rules(), len(table.Rules))
	}
	for _, rule := range table.Rules {
		if got, ok := compiled.Rule(rule.ID); !ok || !reflect.DeepEqual(got, rule) {
			t.Fatalf("rule %s is %s", rule.ID, show(got))
		}
	}
	for _, backend := range table.Backends {
		if got, ok := compiled.Backend(backend.ID); !ok || len(got.Endpoints) != len(backend.Endpoints) {
			t.Fatalf("backend %s is %+v", backend.ID, got)
		}
	}
}

// TestApplyToEmptyAndBack adds everything to an empty Program, one by one, and
// removes it again.
func TestApplyToEmptyAndBack(t *testing.T) {
	for seed := range uint64(60) {
		c := randomChooser(seed + 2_000_000)
		full := c.table(40)
		table := &route.Table{EntryPoints: full.EntryPoints, Backends: full.Backends, TCPRoutes: full.TCPRoutes}
		compiled := mustCompile(t, table)
		step := func(rules []*route.Rule) {
			to := *table
			to.Rules = rules
			change := route.Diff(table, &to)
			next := must.Get(compiled.Apply(&change))(t)
			table, compiled = &to, next
			for range 5 {
				compareWithOracle(t, compiled, table, c)
			}
		}
		for i := range full.Rules {
			step(full.Rules[:i+1])
		}
		random := rand.New(rand.NewPCG(seed, 2))
		for left := slices.Clone(full.Rules); len(left) > 0; {
			i := random.IntN(len(left))
			left = slices.Delete(slices.Clone(left), i, i+1)
			step(left)
		}
		if compiled.Rules() != 0 {
			t.Fatalf("%d rules are left", compiled.Rules())
		}
	}
}

// TestTableOrderHasNoEffect: replicas that list the same things differently
// choose the same rules.
func TestTableOrderHasNoEffect(t *testing.T) {
	for seed := range uint64(150) {
		c := randomChooser(seed + 3_000_000)
		table := c.table(60)
		shuffled := *table
		shuffled.Rules = slices.Clone(table.Rules)
		shuffled.TCPRoutes = slices.Clone(table.TCPRoutes)
		rand.New(rand.NewPCG(seed, 3)).Shuffle(len(shuffled.Rules), func(i, j int) {
			shuffled.Rules[i], shuffled.Rules[j] = shuffled.Rules[j], shuffled.Rules[i]
		})
		slices.Reverse(shuffled.TCPRoutes)
		one, other := mustCompile(t, table), mustCompile(t, &shuffled)
		for range 60 {
			req, tcp := c.request(), c.tcpRequest()
			if a, b := one.Lookup(&req).Rule, other.Lookup(&req).Rule; a != b {
				t.Fatalf("%+v: %s and %s", req, show(a), show(b))
			}
			if a, b := one.LookupTCP(&tcp).Route, other.LookupTCP(&tcp).Route; a != b {
				t.Fatalf("%+v: %+v and %+v", tcp, a, b)
			}
		}
	}
}

// FuzzLookup lets a fuzzer choose table, change and requests.
func FuzzLookup(f *testing.F) {
	for seed := range uint64(8) {
		c := randomChooser(seed)
		data := make([]byte, 512)
		for i := range data {
			data[i] = c.next()
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4096 {
			return
		}
		c := byteChooser(data)
		table := c.table(20)
		compiled := mustCompile(t, table)
		for range 4 {
			compareWithOracle(t, compiled, table, c)
		}
		to := c.changed(table)
		change := route.Diff(table, to)
		next := must.Get(compiled.Apply(&change))(t)
		for range 4 {
			compareWithOracle(t, next, to, c)
			compareWithOracle(t, compiled, table, c)
		}
	})
}
