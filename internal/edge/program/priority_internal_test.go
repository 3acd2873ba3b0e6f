package program

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

func prioritized(name, host string, priority int32) *route.Rule {
	return &route.Rule{
		ID: route.ID{Name: name}, Host: host, Priority: priority, Response: &route.Response{Status: 200},
		Match: route.Match{Path: route.PathMatch{Type: route.PathPrefix, Value: "/" + name}},
	}
}

// TestMaxWildcardPriority changes rules at random, several at a time, and
// compares the bound with that of a Program that is compiled from scratch. A
// bound that is too high costs every lookup a search, and one that is too low
// serves the wrong rule.
func TestMaxWildcardPriority(t *testing.T) {
	hosts := []string{"", "*.a.x", "*.b.x", "*.c.x", "www.a.x"}
	random := rand.New(rand.NewPCG(3, 4))
	current := must.Get(Compiler{}.Compile(&route.Table{}))(t)
	rules := map[string]*route.Rule{}
	lowered := 0
	for range 2000 {
		var change route.Change
		for i := range 8 {
			name := fmt.Sprint("r", i)
			if random.IntN(3) > 0 {
				continue
			}
			rule := prioritized(name, hosts[random.IntN(len(hosts))], []int32{math.MinInt32, -5, 0, 7, math.MaxInt32}[random.IntN(5)])
			switch old := rules[name]; {
			case old == nil:
				change.Rules.Added, rules[name] = append(change.Rules.Added, rule), rule
			case random.IntN(2) == 0:
				change.Rules.Removed = append(change.Rules.Removed, old.ID)
				delete(rules, name)
			default:
				change.Rules.Changed, rules[name] = append(change.Rules.Changed, rule), rule
			}
		}
		next := must.Get(current.Apply(&change))(t)
		var table route.Table
		want := int32(math.MinInt32)
		for _, rule := range rules {
			table.Rules = append(table.Rules, rule)
			if rule.Host != "www.a.x" {
				want = max(want, rule.Priority)
			}
		}
		fresh := must.Get(Compiler{}.Compile(&table))(t)
		if next.maxWildcardPriority != want || fresh.maxWildcardPriority != want {
			t.Fatalf("the highest priority is %d after the change and %d when compiled, want %d", next.maxWildcardPriority, fresh.maxWildcardPriority, want)
		}
		if next.wildcard.size > 0 && want < current.maxWildcardPriority {
			lowered++
		}
		current = next
	}
	if lowered == 0 {
		t.Error("the bound was never lowered while wildcards were left: nothing was shown")
	}
}
