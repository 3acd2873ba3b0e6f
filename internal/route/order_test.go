package route

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestOrder(t *testing.T) {
	old, young := time.Unix(1000, 0), time.Unix(2000, 0)
	path := func(kind PathType, value string) Match { return Match{Path: PathMatch{kind, value}} }
	header := func(m Match, names ...string) Match {
		for _, name := range names {
			m.Headers = append(m.Headers, ValueMatch{Name: name, Type: ValuePresent})
		}
		return m
	}
	// Each rule comes before the next one, by the criterion next to it.
	list := []struct {
		rule *Rule
		by   Criterion
	}{
		{&Rule{Priority: 5, Match: path(PathPrefix, "/")}, ByPriority},
		{owned("b", math.MaxInt32, false, "/"), ByPriority},
		{&Rule{Host: "a.x", Match: path(PathExact, "/a")}, ByExactPath},
		{owned("c", -3, false, "/a/long/one/too"), ByLength},
		{&Rule{Host: "a.x", Match: path(PathPrefix, "/a/long/one")}, ByLength},
		{&Rule{Host: "a.x", Match: Match{Path: PathMatch{PathRegexp, "(?i)^/zz?"}, PathOrder: "/zz?x"}}, ByPathText},
		{&Rule{Host: "a.x", Match: Match{Path: PathMatch{PathRegexp, "(?i)^/a.*"}, PathOrder: "/a.*x"}}, ByPathType},
		{&Rule{Host: "a.x", Match: path(PathCharacterPrefix, "/abc/")}, ByLength},
		{&Rule{Host: "a.x", Match: path(PathRegexp, "^/abc")}, ByPathType},
		{&Rule{Host: "a.x", Match: path(PathPrefix, "/abc/")}, ByPathType},
		{&Rule{Host: "a.x", Match: header(path(PathCharacterPrefix, "/abc"), "x", "y")}, ByConditions},
		{&Rule{Host: "a.x", Match: header(path(PathCharacterPrefix, "/abc"), "x")}, ByConditions},
		{&Rule{Host: "a.x", Match: path(PathCharacterPrefix, "/abc"), Created: old}, ByAge},
		{&Rule{Host: "a.x", Match: path(PathCharacterPrefix, "/abc"), Created: young, ID: ID{Namespace: "a", Name: "z"}}, ByIdentity},
		{&Rule{Host: "a.x", Match: path(PathCharacterPrefix, "/abc"), Created: young, ID: ID{Namespace: "b", Name: "a"}}, ByIdentity},
		{&Rule{Host: "a.x", Match: path(PathCharacterPrefix, "/abc"), Created: young, ID: ID{Namespace: "b", Name: "a", Rule: 1}}, ByIdentity},
		{&Rule{Host: "a.x", Match: path(PathCharacterPrefix, "/abc"), Created: young, ID: ID{Namespace: "b", Name: "a", Rule: 1, Path: 1}}, ByIdentity},
		{&Rule{Host: "a.x", Match: path(PathCharacterPrefix, "/abc"), Created: young, ID: ID{Namespace: "b", Name: "a", Rule: 1, Path: 1, Kind: "K"}}, ByIdentity},
		{&Rule{Host: "a.x", Match: path(PathCharacterPrefix, "/abc"), Created: young, ID: ID{Namespace: "b", Name: "a", Rule: 1, Path: 1, Kind: "K", Variant: "v"}}, ByLength},
		{&Rule{Host: "a.x", Match: path(PathPrefix, "/")}, ByLength},
		{&Rule{Host: "a.x", Match: path(PathRegexp, "not anchored")}, ByPathType},
		{&Rule{Host: "a.x"}, ByFallback},
		{&Rule{Host: "a.x", Fallback: true}, ByPriority},
		{owned("b", -1, false, "/long"), ByOwner},
		{owned("b", 7, true, "/long"), ByLength},
		{owned("c", 9, true, "/a"), ByHost},
		{&Rule{Host: "*.x", Match: path(PathExact, "/a/longer/path")}, ByExactPath},
		{&Rule{Host: "*.x"}, ByHost},
		{&Rule{Match: path(PathExact, "/a/longer/path/still")}, ByExactPath},
		{&Rule{}, ByFallback},
		{&Rule{Fallback: true}, ByPriority},
		{&Rule{Host: "a.x", Priority: -1, Match: path(PathExact, "/a")}, ""},
	}
	for i := range list {
		for j := range list {
			got := OrderOf(list[i].rule).Compare(OrderOf(list[j].rule))
			if want := i - j; got*want < 0 || (got == 0) != (want == 0) {
				t.Errorf("rule %d against rule %d: %d", i, j, got)
			}
		}
		if i+1 < len(list) {
			if _, by := OrderOf(list[i].rule).Decide(OrderOf(list[i+1].rule)); by != list[i].by {
				t.Errorf("rule %d comes before the next by %s, want %s", i, by, list[i].by)
			}
		}
	}
}

// TestHostRank: the rank of a host comes before paths, behind its owner and less specific hosts
// after it. Only rules of listeners have one.
func TestHostRank(t *testing.T) {
	at := func(host string, rank int32, path string) *Rule {
		return &Rule{Listener: ListenerID{Name: "web"}, Host: host, HostRank: rank, Match: Match{Path: PathMatch{PathPrefix, path}}}
	}
	behind := at("a.x", 0, "/longest")
	behind.HostOwner.Behind = true
	list := []struct {
		rule *Rule
		by   Criterion
	}{
		{at("a.x", 0, "/long"), ByLength},
		{at("a.x", 0, "/a"), ByHostRank},
		{at("a.x", -2, "/longer"), ByHostRank},
		{at("a.x", -300, "/longest"), ByFallback},
		{&Rule{Listener: ListenerID{Name: "web"}, Host: "a.x", HostRank: math.MinInt32, Fallback: true}, ByOwner},
		{behind, ByHost},
		{at("*.x", 0, "/longest"), ""},
	}
	for i := range len(list) - 1 {
		order, by := OrderOf(list[i].rule).Decide(OrderOf(list[i+1].rule))
		if order >= 0 || by != list[i].by {
			t.Errorf("rule %d is compared with the next as %d by %s, want before it by %s", i, order, by, list[i].by)
		}
	}
	if rank := rankOf(&Rule{Host: "a.x", HostRank: -2}); rank != 0 {
		t.Errorf("a rule without a listener has the rank %d", rank)
	}
}

// owned is a rule of a host that belongs to the namespace b.
func owned(namespace string, priority int32, behind bool, prefix string) *Rule {
	return &Rule{
		ID: ID{Namespace: namespace}, Host: "a.x", Priority: priority, Match: Match{Path: PathMatch{PathPrefix, prefix}},
		HostOwner: HostOwner{Namespace: "b", Behind: behind},
	}
}

// TestRank: a rank has the priority across hosts, and the one above it is the
// lowest that has a higher one.
func TestRank(t *testing.T) {
	priorities := []int32{math.MinInt32, -2, -1, 0, 1, 2, math.MaxInt32}
	var ranks []Rank
	for _, priority := range priorities {
		ranks = append(ranks, rankOf(&Rule{Priority: priority}),
			rankOf(owned("b", priority, false, "/")), rankOf(owned("c", priority, false, "/")), rankOf(owned("b", priority, true, "/")))
		if got := rankOf(&Rule{Priority: priority}).Priority(); got != priority {
			t.Errorf("the rank of priority %d has %d", priority, got)
		}
		if got := rankOf(owned("b", priority, false, "/")).Priority(); got != 0 {
			t.Errorf("the rank of priority %d within a host has %d across hosts", priority, got)
		}
	}
	for _, best := range ranks {
		for _, other := range ranks {
			if got, want := other >= best.Above(), other.Priority() > best.Priority(); got != want {
				t.Errorf("rank %d against %d: %v, want %v", other, best, got, want)
			}
		}
	}
}

// TestOrderIsTotal sorts random rules in random orders: one result, and no
// ties between identities.
func TestOrderIsTotal(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		fill := &filler{random: random}
		rules := make([]*Rule, 12)
		for i := range rules {
			rules[i] = orderedRule(fill)
			rules[i].ID = ID{Namespace: []string{"a", "b"}[i%2], Name: "n", Rule: i}
		}
		sorted := func() []*Rule {
			random.Shuffle(len(rules), func(i, j int) { rules[i], rules[j] = rules[j], rules[i] })
			list := slices.Clone(rules)
			slices.SortFunc(list, func(a, b *Rule) int { return OrderOf(a).Compare(OrderOf(b)) })
			return list
		}
		first := sorted()
		for i := range first {
			for j := range first {
				got := OrderOf(first[i]).Compare(OrderOf(first[j]))
				if want := i - j; got*want < 0 || (got == 0) != (want == 0) {
					t.Fatalf("not total: %+v against %+v is %d", first[i], first[j], got)
				}
			}
		}
		if !slices.Equal(first, sorted()) {
			t.Fatal("the order depends on that of the list")
		}
	}
}

// orderedRule is a rule with few possible values, so that rules often tie in
// several steps of the order.
func orderedRule(f *filler) *Rule {
	pick := func(values ...string) string { return values[f.random.IntN(len(values))] }
	rule := &Rule{
		Host:     pick("", "a.x", "*.x"),
		Priority: int32(f.random.IntN(2)),
		Created:  time.Unix(int64(f.random.IntN(2)), 0),
		Fallback: f.random.IntN(4) == 0,
	}
	if f.random.IntN(2) == 0 {
		rule.HostOwner = HostOwner{Namespace: pick("a", "b"), Behind: f.random.IntN(3) == 0}
	}
	rule.Match.Path.Type = PathType(pick("exact", "prefix", "characterPrefix", "regexp", ""))
	if rule.Match.Path.Type != "" {
		rule.Match.Path.Value = pick("/", "/a", "/a/", "^/a", "^/")
	}
	if f.random.IntN(2) == 0 {
		rule.Match.Methods = []string{"GET"}
	}
	return rule
}

func TestTCPOrder(t *testing.T) {
	list := []*TCPRoute{
		{Priority: 1, TLS: TLSPlain},
		{TLS: TLSTerminate, ServerName: "a.x"},
		{TLS: TLSPassthrough, ServerName: "*.x"},
		{TLS: TLSPassthrough, Created: time.Unix(1, 0)},
		{TLS: TLSPassthrough, Created: time.Unix(2, 0)},
		{TLS: TLSPassthrough, Created: time.Unix(2, 0), ID: TCPRouteID{Name: "b"}},
		{TLS: TLSPlain},
	}
	for i := range list {
		for j := range list {
			if got := list[i].Compare(list[j]) < 0; got != (i < j) {
				t.Errorf("route %d before route %d: %v", i, j, got)
			}
		}
	}
}
