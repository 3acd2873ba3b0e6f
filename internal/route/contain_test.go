package route

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"slipway.dev/slipway/api/refusal"
)

func status(code int) *Response { return &Response{Status: code} }

func ref(name string) []BackendRef { return []BackendRef{{Backend: BackendID{Name: name}}} }

// TestContain: each problem costs what has it, and nothing else.
func TestContain(t *testing.T) {
	fine := &Rule{ID: ID{Name: "fine"}, Backends: ref("fine")}
	table := &Table{
		EntryPoints: []string{"web"},
		Rules: []*Rule{
			fine,
			{ID: ID{Name: "policy"}, Host: "a.x", Backends: ref("fine"), Policies: []Policy{{BasicAuth: &BasicAuth{}}}},
			{ID: ID{Name: "backend"}, Backends: ref("broken")},
			{ID: ID{Name: "rewrite"}, Host: "a.x", Backends: ref("fine"), Rewrite: &Rewrite{Path: "no slash"}},
			{ID: ID{Name: "rewritten"}, Host: "a.x", Backends: ref("fine"), Rewrite: &Rewrite{Path: "/"}, Policies: []Policy{{BasicAuth: &BasicAuth{}}}},
			{ID: ID{Name: "authority"}, Backends: ref("chain")},
			{ID: ID{Name: "host"}, Host: "A.x", Backends: ref("fine")},
			{ID: ID{Name: "regexp"}, Match: Match{Path: PathMatch{PathRegexp, "("}}, Backends: ref("fine")},
			{ID: ID{Name: "entry"}, EntryPoints: []string{"other"}, Backends: ref("fine")},
			{ID: ID{Name: "twice"}, Response: status(200)},
			{ID: ID{Name: "twice"}, Response: status(201)},
			nil,
		},
		TCPRoutes: []*TCPRoute{{ID: TCPRouteID{Name: "fine"}, TLS: "what"}},
		Backends: []*Backend{
			{ID: BackendID{Name: "fine"}},
			{ID: BackendID{Name: "broken"}, Endpoints: []Endpoint{{}}},
			{ID: BackendID{Name: "chain"}, Transport: Transport{Protocol: ProtocolTLS, TLS: &UpstreamTLS{Authority: AuthorityID{Name: "empty"}}}},
		},
		Authorities: []*Authority{{ID: AuthorityID{Name: "empty"}}},
	}
	before := len(table.Rules)
	contained, problems := table.Contain()
	if left := contained.Validate(); len(left) > 0 {
		t.Errorf("a problem is left: %s", left[0])
	}
	if len(problems) == 0 || len(table.Rules) != before {
		t.Errorf("%d problems; the receiver has %d rules, had %d", len(problems), len(table.Rules), before)
	}
	want := map[string]int{"fine": 0, "policy": 503, "backend": 503, "authority": 503, "rewrite": 503, "rewritten": 503}
	for _, rule := range contained.Rules {
		code, expected := want[rule.ID.Name]
		delete(want, rule.ID.Name)
		switch {
		case !expected:
			t.Errorf("rule %s is still there", rule.ID)
		case code == 0 && rule != fine:
			t.Errorf("rule %s was changed", rule.ID)
		case code != 0 && (rule.Response == nil || rule.Response.Status != code || rule.Response.Reason != ReasonRefused || len(rule.Backends)+len(rule.Policies) > 0):
			t.Errorf("rule %s is not closed: %+v", rule.ID, rule)
		}
	}
	if len(want) > 0 {
		t.Errorf("rules are missing: %v", want)
	}
	if len(contained.Backends) != 1 || len(contained.TCPRoutes) != 0 || len(contained.Authorities) != 0 {
		t.Errorf("left over: %+v", contained)
	}
	again, none := contained.Contain()
	if again != contained || none != nil {
		t.Error("a table without problems is not returned as it is")
	}
}

// TestContainTLSOptions: a host whose options have a problem is closed, never
// served without them, and other hosts keep theirs.
func TestContainTLSOptions(t *testing.T) {
	fine := &TLSOptions{ID: TLSOptionsID{Name: "fine"}, Hosts: []string{"a.x"}, MinVersion: "1.3"}
	table := &Table{TLSOptions: []*TLSOptions{
		fine,
		{ID: TLSOptionsID{Name: "verify"}, Hosts: []string{"b.x", "*.b.x"}, ClientAuth: ClientAuthVerify},
		{ID: TLSOptionsID{Name: "twice"}, Hosts: []string{"c.x"}},
		{ID: TLSOptionsID{Name: "twice"}, Hosts: []string{"d.x"}},
		{ID: TLSOptionsID{Name: "no/name"}, Hosts: []string{"e.x", "NO"}},
		{ID: TLSOptionsID{Name: "all"}},
		{ID: TLSOptionsID{Name: "all-too"}},
	}}
	contained, _ := table.Contain()
	if left := contained.Validate(); len(left) > 0 {
		t.Fatalf("a problem is left: %s", left[0])
	}
	want := []*TLSOptions{
		fine,
		{ID: TLSOptionsID{Name: "verify"}, Hosts: []string{"b.x", "*.b.x"}, Refused: true},
		{ID: TLSOptionsID{Name: "twice"}, Hosts: []string{"c.x", "d.x"}, Refused: true},
		{ID: refusedOptions, Hosts: []string{"e.x"}, Refused: true},
		{ID: TLSOptionsID{Name: "all"}, Refused: true},
	}
	if !reflect.DeepEqual(contained.TLSOptions, want) {
		t.Errorf("got  %+v", contained.TLSOptions)
	}
}

// TestContainAnything: whatever a table has in it, the result is valid, what
// had no problem is the same value, and no rule with a problem reaches a
// backend.
func TestContainAnything(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	sound := []string{"a", "b", "exact", "regexp", "/a", "example.com", "GET", "", "", ""}
	kept := 0
	for i := range 1000 {
		fill := &filler{random: random, strings: sound}
		if i%3 == 0 {
			fill.strings = hostile
		}
		table := fill.table()
		for i := range 4 {
			table.Rules = append(table.Rules, spoiled(fill, &Rule{ID: ID{Name: "valid", Rule: i}, Response: status(200)}))
		}
		contained, problems := table.Contain()
		if left := contained.Validate(); len(left) > 0 {
			t.Fatalf("a problem is left: %s", left[0])
		}
		bad := make(map[Identity]bool)
		for _, problem := range problems {
			bad[problem.Subject] = true
		}
		for _, rule := range table.Rules {
			same := slices.Contains(contained.Rules, rule)
			if same == bad[rule.ID] {
				t.Fatalf("rule %s: problem %v, kept as it is %v", rule.ID, bad[rule.ID], same)
			}
			if same {
				kept++
			}
		}
		for _, rule := range contained.Rules {
			if bad[rule.ID] && (len(rule.Backends) > 0 || rule.Response.Status != 503) {
				t.Fatalf("rule %s is open", rule.ID)
			}
		}
	}
	if kept < 500 {
		t.Errorf("only %d rules had no problem: the test shows nothing", kept)
	}
}

// spoiled changes one field of a valid rule, or none.
func spoiled(f *filler, rule *Rule) *Rule {
	fields := reflect.ValueOf(rule).Elem()
	if i := f.random.IntN(2 * fields.NumField()); i < fields.NumField() {
		f.fill(fields.Field(i))
	}
	return rule
}

// TestCrowds: the limits on what is tried one by one cost the youngest.
func TestCrowds(t *testing.T) {
	table := &Table{Backends: []*Backend{{ID: BackendID{Name: "b"}}}, EntryPoints: []string{"tcp"}}
	add := func(count int, name string, path PathMatch) {
		for i := range count {
			// The youngest comes first, with the highest priority: that does not help.
			age := time.Unix(int64(count-i), 0)
			table.Rules = append(table.Rules, &Rule{
				ID: ID{Name: name, Rule: i}, Host: "a.x", Created: age, Priority: int32(count - i),
				Match: Match{Path: path}, Response: status(200),
			})
		}
	}
	add(MaxExpressionsPerHost+2, "regexp", PathMatch{PathRegexp, "^/a"})
	add(MaxRulesPerPath+1, "path", PathMatch{PathPrefix, "/a/"})
	add(MaxRulesPerPath, "enough", PathMatch{PathExact, "/b"})
	for i := range MaxRoutesPerServerName + 1 {
		table.TCPRoutes = append(table.TCPRoutes, &TCPRoute{
			ID: TCPRouteID{Name: "tcp", Rule: i}, EntryPoints: []string{"tcp"}, TLS: TLSPlain, Backends: ref("b"),
		})
	}
	var got []string
	for _, problem := range table.Validate() {
		if problem.Reason != refusal.TooMany {
			t.Errorf("another problem: %s", problem)
		}
		got = append(got, problem.Subject.String())
	}
	want := []string{"path[0][0]", "regexp[0][0]", "regexp[1][0]", "tcp[1000][0]"}
	if !slices.Equal(got, want) {
		t.Errorf("too many are %v, want %v", got, want)
	}
}
