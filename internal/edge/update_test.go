package edge_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

// siteRule is a rule of a cluster that responds with a status.
func siteRule(name, host string, status int) *route.Rule {
	return &route.Rule{
		ID: route.ID{Kind: "Ingress", Namespace: "shop", Name: name}, Host: host,
		Match:    route.Match{Path: route.PathMatch{Type: route.PathPrefix, Value: "/"}},
		Response: &route.Response{Status: status, Reason: route.ReasonConfigured},
	}
}

func added(rules ...*route.Rule) *route.Change {
	change := &route.Change{}
	change.Rules.Added = rules
	return change
}

// statusOf asks for / of a host.
func statusOf(t *testing.T, e *running, host string) int {
	t.Helper()
	w := edgetest.Dial(t, e.address)
	defer w.Close()
	w.Send("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
	response, _ := w.Response("GET")
	return response.StatusCode
}

// What comes by Update is served beside the table that was applied, and
// neither touches the other.
func TestUpdateBesideApply(t *testing.T) {
	file := siteRule("file", "file.example", 201)
	file.ID = route.ID{Name: "file"}
	e := start(t, &route.Table{Rules: []*route.Rule{file}})
	if feedback := e.Update(added(siteRule("a", "a.example", 202))); len(feedback.Problems) > 0 {
		t.Fatal(feedback.Problems)
	}
	if got := []int{statusOf(t, e, "file.example"), statusOf(t, e, "a.example")}; !slices.Equal(got, []int{201, 202}) {
		t.Errorf("got %v", got)
	}
	must.Do(t, e.Apply(&route.Table{}))
	if got := []int{statusOf(t, e, "file.example"), statusOf(t, e, "a.example")}; !slices.Equal(got, []int{404, 202}) {
		t.Errorf("after an empty table got %v", got)
	}
}

// What is wrong in a change is closed, and the rest is live.
func TestUpdateConfines(t *testing.T) {
	e := start(t, &route.Table{})
	policy := siteRule("policy", "policy.example", 200)
	policy.Policies = []route.Policy{{AddPrefix: &route.AddPrefix{Prefix: "no slash"}}}
	users := siteRule("users", "users.example", 200)
	users.Policies = []route.Policy{{BasicAuth: &route.BasicAuth{Users: route.NewSecret("no htpasswd line")}}}
	backend := siteRule("backend", "backend.example", 200)
	backend.Response, backend.Backends = nil, []route.BackendRef{{Backend: route.BackendID{Namespace: "shop", Name: "none", Port: 80}}}
	point := siteRule("point", "point.example", 200)
	point.EntryPoints = []string{"nowhere"}
	host := siteRule("host", "bad host", 200)
	change := added(policy, users, backend, point, host, siteRule("good", "good.example", 200))
	bad := &route.Backend{ID: route.BackendID{Namespace: "shop", Name: "bad", Port: 80}, MaxInFlight: -1}
	hopeless := &route.Backend{ID: route.BackendID{Namespace: "not a name", Name: "bad", Port: 80}}
	change.Backends.Added = []*route.Backend{bad, hopeless}
	change.Certificates.Added = []*route.Certificate{{ID: route.CertificateID{Namespace: "shop", Name: "empty"}, Hosts: []string{"good.example"}}}
	feedback := e.Update(change)

	subjects := map[string]bool{}
	for _, problem := range feedback.Problems {
		subjects[problem.Subject.String()] = true
	}
	want := []string{
		"Ingress shop/backend[0][0]", "Ingress shop/host[0][0]", "Ingress shop/point[0][0]", "Ingress shop/policy[0][0]", "Ingress shop/users[0][0]",
		"not a name/bad:80", "shop/bad:80", "shop/empty",
	}
	if got := slices.Sorted(maps.Keys(subjects)); !slices.Equal(got, want) {
		t.Errorf("problems with %q", got)
	}
	answers := map[string]int{
		"policy.example": 503, "users.example": 503, "backend.example": 503, "point.example": 404, "good.example": 200,
	}
	for host, want := range answers {
		if got := statusOf(t, e, host); got != want {
			t.Errorf("%s answers %d, want %d", host, got, want)
		}
	}
	// The sender of changes takes all of it as applied.
	again := &route.Change{}
	again.Rules.Changed = []*route.Rule{siteRule("point", "point.example", 204)}
	again.Rules.Removed = []route.ID{host.ID, policy.ID}
	again.Backends.Removed = []route.BackendID{hopeless.ID, bad.ID}
	if feedback := e.Update(again); len(feedback.Problems) > 0 {
		t.Error(feedback.Problems)
	}
	if got := statusOf(t, e, "point.example"); got != 204 {
		t.Errorf("the rule in order answers %d", got)
	}
}

// A rule beyond a limit finds its place when another one goes.
func TestUpdateParks(t *testing.T) {
	e := start(t, &route.Table{})
	var crowd []*route.Rule
	for i := range route.MaxExpressionsPerHost {
		rule := siteRule(fmt.Sprintf("crowd-%d", i), "a.example", 200)
		rule.Match.Path = route.PathMatch{Type: route.PathRegexp, Value: fmt.Sprintf("^/x%d$", i)}
		crowd = append(crowd, rule)
	}
	if feedback := e.Update(added(crowd...)); len(feedback.Problems) > 0 {
		t.Fatal(feedback.Problems)
	}
	late := siteRule("late", "a.example", 200)
	late.Match.Path = route.PathMatch{Type: route.PathRegexp, Value: "^/$"}
	if feedback := e.Update(added(late)); len(feedback.Problems) != 1 {
		t.Fatalf("got %v", feedback.Problems)
	}
	if got := statusOf(t, e, "a.example"); got != 404 {
		t.Errorf("one too many answers %d", got)
	}
	room := &route.Change{}
	room.Rules.Removed = []route.ID{crowd[0].ID}
	if feedback := e.Update(room); len(feedback.Problems) > 0 {
		t.Fatal(feedback.Problems)
	}
	if got := statusOf(t, e, "a.example"); got != 200 {
		t.Errorf("with room for it, it answers %d", got)
	}
}

// However a table is reached by changes, in whatever lists their elements are,
// it is served as if it had been there from the start.
func TestUpdateLeadsThere(t *testing.T) {
	e := start(t, &route.Table{})
	want := map[route.ID]*route.Rule{}
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		change := &route.Change{}
		for _, i := range random.Perm(20)[:1+random.IntN(5)] {
			name := fmt.Sprintf("site-%d", i)
			rule := siteRule(name, name+".example", 200+random.IntN(4))
			switch random.IntN(3) {
			case 0:
				change.Rules.Removed = append(change.Rules.Removed, rule.ID)
			case 1:
				change.Rules.Added = append(change.Rules.Added, rule)
			default:
				change.Rules.Changed = append(change.Rules.Changed, rule)
			}
		}
		if feedback := e.Update(change); len(feedback.Problems) > 0 {
			t.Fatal(feedback.Problems)
		}
		for _, id := range change.Rules.Removed {
			delete(want, id)
		}
		for _, rule := range slices.Concat(change.Rules.Added, change.Rules.Changed) {
			want[rule.ID] = rule
		}
	}
	var got, expected bytes.Buffer
	table := *e.Table()
	table.EntryPoints = nil
	must.Do(t, route.Encode(&got, &table))
	must.Do(t, route.Encode(&expected, &route.Table{Rules: slices.Collect(maps.Values(want))}))
	if got.String() != expected.String() {
		t.Errorf("the table is\n%s\nwant\n%s", got.String(), expected.String())
	}
	for i := range 20 {
		name := fmt.Sprintf("site-%d", i)
		answer := http.StatusNotFound
		if rule := want[siteRule(name, "", 0).ID]; rule != nil {
			answer = rule.Response.Status
		}
		if got := statusOf(t, e, name+".example"); got != answer {
			t.Errorf("%s answers %d, want %d", name, got, answer)
		}
	}
}

// The problems of certificates are reported in full with each change of them.
func TestUpdateTellsOfCertificates(t *testing.T) {
	e := start(t, &route.Table{})
	change := &route.Change{}
	change.Certificates.Added = []*route.Certificate{{
		ID: route.CertificateID{Namespace: "shop", Name: "broken"}, Hosts: []string{"a.example"}, Chain: "no PEM", Key: route.NewSecret("none"),
	}}
	feedback := e.Update(change)
	if !feedback.TLSChanged || len(feedback.TLS) != 1 || !strings.Contains(feedback.TLS[0].String(), "shop/broken") {
		t.Errorf("got %+v", feedback)
	}
	if feedback := e.Update(added(siteRule("a", "a.example", 200))); feedback.TLSChanged {
		t.Errorf("a change without certificates tells %v", feedback.TLS)
	}
}
