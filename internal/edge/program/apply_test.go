package program_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/edge/program"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

func TestCompileRefusesProblems(t *testing.T) {
	table := &route.Table{Rules: []*route.Rule{simpleRule("a", "A.x", "/"), simpleRule("b", "", "x")}}
	_, err := program.Compiler{}.Compile(table)
	invalid, ok := errors.AsType[*route.InvalidError](err)
	if !ok || len(invalid.Problems) != 2 {
		t.Fatalf("error %v", err)
	}
	if !strings.Contains(err.Error(), "problems (2)") || !strings.Contains(err.Error(), "rule b[0][0]: match.path.value") {
		t.Errorf("error %v", err)
	}
}

// applyTable is what the changes of TestApplyRefuses are applied to.
func applyTable() *route.Table {
	using := simpleRule("using", "a.x", "/")
	using.Response = nil
	using.Backends = []route.BackendRef{{Backend: route.BackendID{Name: "used"}}}
	using.EntryPoints = []string{"web"}
	return &route.Table{
		EntryPoints: []string{"web", "tls"},
		Rules:       []*route.Rule{using, simpleRule("plain", "b.x", "/")},
		Backends:    []*route.Backend{{ID: route.BackendID{Name: "used"}}, {ID: route.BackendID{Name: "free"}}},
		TCPRoutes: []*route.TCPRoute{{
			ID: route.TCPRouteID{Name: "tcp"}, EntryPoints: []string{"tls"}, TLS: route.TLSPlain,
			Backends: []route.BackendRef{{Backend: route.BackendID{Name: "used"}}},
		}},
	}
}

// TestApplyRefuses: a change with a problem, or for another Program, is an
// error, and the Program that it was applied to matches as before.
func TestApplyRefuses(t *testing.T) {
	missing := simpleRule("missing", "", "/")
	missing.Response = nil
	missing.Backends = []route.BackendRef{{Backend: route.BackendID{Name: "gone"}}}
	elsewhere := simpleRule("elsewhere", "", "/")
	elsewhere.EntryPoints = []string{"other"}
	tcp := func(name, mode string) *route.TCPRoute {
		return &route.TCPRoute{
			ID: route.TCPRouteID{Name: name}, EntryPoints: []string{"tls"}, TLS: route.TLSMode(mode),
			Backends: []route.BackendRef{{Backend: route.BackendID{Name: "used"}}},
		}
	}
	for _, c := range []struct {
		name   string
		change func(*route.Change)
		fits   bool
		want   string
	}{
		{"rule twice", func(c *route.Change) { c.Rules.Added = []*route.Rule{simpleRule("plain", "c.x", "/")} }, false, "rule plain[0][0] is added, but it is there"},
		{"rule gone", func(c *route.Change) { c.Rules.Removed = []route.ID{{Name: "nobody"}} }, false, "is not there"},
		{"rule changed gone", func(c *route.Change) { c.Rules.Changed = []*route.Rule{simpleRule("nobody", "", "/")} }, false, "is not there"},
		{"rule invalid", func(c *route.Change) { c.Rules.Added = []*route.Rule{simpleRule("x", "X", "/")} }, true, "has capitals"},
		{"rule without backend", func(c *route.Change) { c.Rules.Added = []*route.Rule{missing} }, true, "the table has no backend gone:0"},
		{"rule elsewhere", func(c *route.Change) { c.Rules.Added = []*route.Rule{elsewhere} }, true, `there is no entry point "other"`},
		{"backend in use", func(c *route.Change) { c.Backends.Removed = []route.BackendID{{Name: "used"}} }, true, "rules still name it (2)"},
		{"backend gone", func(c *route.Change) { c.Backends.Removed = []route.BackendID{{Name: "nobody"}} }, false, "is not there"},
		{"backend twice", func(c *route.Change) { c.Backends.Added = []*route.Backend{{ID: route.BackendID{Name: "free"}}} }, false, "is added, but it is there"},
		{"backend changed gone", func(c *route.Change) {
			c.Backends.EndpointsChanged = []*route.Backend{{ID: route.BackendID{Name: "nobody"}}}
		}, false, "is not there"},
		{"backend invalid", func(c *route.Change) {
			c.Backends.Changed = []*route.Backend{{ID: route.BackendID{Name: "free"}, Endpoints: []route.Endpoint{{}}}}
		}, true, "give an address"},
		{"entry point in use", func(c *route.Change) { c.NewEntryPoints, c.EntryPoints = true, []string{"tls"} }, true, "web is removed, but rules still name it (1)"},
		{"entry point invalid", func(c *route.Change) { c.NewEntryPoints, c.EntryPoints = true, []string{"web", "tls", ""} }, true, "entryPoints[2]"},
		{"TCP twice", func(c *route.Change) { c.TCPRoutes.Added = []*route.TCPRoute{tcp("tcp", "plain")} }, false, "TCP route tcp[0][0] is added"},
		{"TCP gone", func(c *route.Change) { c.TCPRoutes.Removed = []route.TCPRouteID{{Name: "nobody"}} }, false, "is not there"},
		{"TCP invalid", func(c *route.Change) { c.TCPRoutes.Changed = []*route.TCPRoute{tcp("tcp", "what")} }, true, "none of plain"},
	} {
		t.Run(c.name, func(t *testing.T) {
			compiled := mustCompile(t, applyTable())
			var change route.Change
			c.change(&change)
			_, err := compiled.Apply(&change)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want %q in it", err, c.want)
			}
			if _, misfit := errors.AsType[*program.ChangeError](err); misfit == c.fits {
				t.Errorf("error %v is a change error: %v", err, misfit)
			}
			checkContents(t, compiled, applyTable())
			if rule := compiled.Lookup(&program.Request{EntryPoint: "web", Host: "a.x", Path: "/"}).Rule; rule == nil || rule.ID.Name != "using" {
				t.Errorf("the program in use changed: %s", show(rule))
			}
		})
	}
}

// TestApplyMovesUses: backends and entry points can go together with what used
// them, and come together with what uses them.
func TestApplyMovesUses(t *testing.T) {
	compiled := mustCompile(t, applyTable())
	moved := *applyTable().Rules[0]
	moved.Backends = []route.BackendRef{{Backend: route.BackendID{Name: "new"}}}
	moved.EntryPoints = []string{"fresh"}
	var change route.Change
	change.NewEntryPoints, change.EntryPoints = true, []string{"fresh", "tls"}
	change.Rules.Changed = []*route.Rule{&moved}
	change.TCPRoutes.Removed = []route.TCPRouteID{{Name: "tcp"}}
	change.Backends.Removed = []route.BackendID{{Name: "used"}}
	change.Backends.Added = []*route.Backend{{ID: route.BackendID{Name: "new"}}}
	next := must.Get(compiled.Apply(&change))(t)
	for entryPoint, want := range map[string]bool{"fresh": true, "web": false, "tls": false} {
		if got := next.Lookup(&program.Request{EntryPoint: entryPoint, Host: "a.x", Path: "/"}).Rule; (got != nil) != want {
			t.Errorf("at %s: %s", entryPoint, show(got))
		}
	}
	if got := next.LookupTCP(&program.TCPRequest{EntryPoint: "tls"}).Route; got != nil {
		t.Errorf("the TCP route is still there: %+v", got)
	}
	if got := compiled.LookupTCP(&program.TCPRequest{EntryPoint: "tls"}).Route; got == nil {
		t.Error("the TCP route is gone from the old program")
	}
}

// TestApplyManyEntryPoints replaces all entry points again and again: their
// places are used again.
func TestApplyManyEntryPoints(t *testing.T) {
	names := func(generation int) []string {
		list := make([]string, route.MaxEntryPoints)
		for i := range list {
			list[i] = fmt.Sprintf("e%d-%d", generation, i)
		}
		return list
	}
	rule := func(generation, i int) *route.Rule {
		r := simpleRule("rule", "", "/")
		r.ID.Rule = i
		r.EntryPoints = []string{names(generation)[i]}
		return r
	}
	table := &route.Table{EntryPoints: names(0)}
	for i := range route.MaxEntryPoints {
		table.Rules = append(table.Rules, rule(0, i))
	}
	compiled := mustCompile(t, table)
	for generation := 1; generation < 4; generation++ {
		to := &route.Table{EntryPoints: names(generation)}
		for i := range route.MaxEntryPoints {
			to.Rules = append(to.Rules, rule(generation, i))
		}
		change := route.Diff(table, to)
		next := must.Get(compiled.Apply(&change))(t)
		for i, name := range names(generation) {
			got := next.Lookup(&program.Request{EntryPoint: name, Path: "/"}).Rule
			if got == nil || got.ID.Rule != i {
				t.Fatalf("at %s: %s", name, show(got))
			}
		}
		if got := next.Lookup(&program.Request{EntryPoint: "unknown", Path: "/"}).Rule; got != nil {
			t.Fatalf("at an unknown entry point: %s", show(got))
		}
		table, compiled = to, next
	}
}

// TestApplyLimits: the limits on what is tried one by one hold for changes
// too, after what the change removes is gone.
func TestApplyLimits(t *testing.T) {
	crowd := func(limit int, path route.PathMatch) *route.Table {
		table := &route.Table{}
		for i := range limit {
			rule := simpleRule("rule", "a.x", "/")
			rule.ID.Rule = i
			rule.Match.Path = path
			rule.Created = time.Unix(int64(i), 0)
			table.Rules = append(table.Rules, rule)
		}
		return table
	}
	for name, table := range map[string]*route.Table{
		"expressions": crowd(route.MaxExpressionsPerHost, route.PathMatch{Type: route.PathRegexp, Value: "^/a"}),
		"path":        crowd(route.MaxRulesPerPath, route.PathMatch{Type: route.PathExact, Value: "/a"}),
		"no path":     crowd(route.MaxRulesPerPath, route.PathMatch{}),
	} {
		t.Run(name, func(t *testing.T) {
			compiled := mustCompile(t, table)
			more := *table.Rules[0]
			more.ID.Name = "more"
			var change route.Change
			change.Rules.Added = []*route.Rule{&more}
			_, err := compiled.Apply(&change)
			invalid, ok := errors.AsType[*route.InvalidError](err)
			if !ok || invalid.Problems[0].Reason != refusal.TooMany || invalid.Problems[0].Subject != more.ID {
				t.Errorf("error %v", err)
			}
			change.Rules.Removed = []route.ID{table.Rules[5].ID}
			if _, err := compiled.Apply(&change); err != nil {
				t.Errorf("one goes and one comes: %v", err)
			}
		})
	}
}

// TestExplainIsBounded: it shows the winner even when it comes late, and reports
// how many rules it does not show.
func TestExplainIsBounded(t *testing.T) {
	table := &route.Table{}
	for i := range program.MaxSteps + 50 {
		rule := simpleRule("rule", "a.x", fmt.Sprintf("/a/%d", i))
		rule.ID.Rule = i
		table.Rules = append(table.Rules, rule)
	}
	table.Rules = append(table.Rules, simpleRule("winner", "a.x", "/"))
	steps := mustCompile(t, table).Explain(&program.Request{Host: "a.x", Path: "/b"})
	if len(steps) != program.MaxSteps+2 {
		t.Fatalf("%d steps", len(steps))
	}
	winner, last := steps[len(steps)-2], steps[len(steps)-1]
	if winner.Decision != program.Wins || winner.Rule.ID.Name != "winner" {
		t.Errorf("the winner is %+v", winner)
	}
	if last.Decision != program.Omitted || last.Why != "the other rules do not match it either (50)" {
		t.Errorf("the last step is %+v", last)
	}
	if steps := mustCompile(t, table).Explain(&program.Request{Host: "b.x", Path: "/b"}); len(steps) != 0 {
		t.Errorf("steps for a host without rules: %+v", steps)
	}
}
