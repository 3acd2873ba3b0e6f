package filter_test

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

// owned are policies that need more than counters: another backend, or encoders.
var owned = map[string]string{
	"waf":         `{"waf": {"directives": "SecRuleEngine On"}}`,
	"forwardAuth": `{"forwardAuth": {"backend": {"name": "auth", "port": 80}, "path": "/"}}`,
	"compression": `{"compression": {}}`,
	"errorPages":  `{"errorPages": {"statuses": [{"from": 500, "to": 599}], "backend": {"name": "pages", "port": 80}, "path": "/"}}`,
	"mirror":      `{"mirror": {"backend": {"name": "copy", "port": 80}, "percent": 10}}`,
}

// nobody is a client whose sub-requests all fail.
type nobody struct{}

func (nobody) Do(*filter.Subrequest) (*filter.Subresponse, error) {
	return nil, errors.New("there is nobody")
}

// everything is what an edge compiles filters with.
func everything() filter.Deps {
	return filter.Deps{
		Counters: filter.NewCounters(start), Encoders: filter.NewEncoders(),
		Backend: func(route.BackendID) filter.SubrequestClient { return nobody{} },
		WAF:     func(*route.WAF) (filter.Filter, error) { return inspector{}, nil },
	}
}

// inspector is a firewall without rules.
type inspector struct{}

func (inspector) Request(*filter.Exchange) *filter.LocalResponse { return nil }

// pass lets everything through, so that it would show if only the policy that
// is damaged were left out.
const pass = `{"requestHeaders": {"set": [{"name": "X-Passed", "value": "1"}]}}`

func policiesOf(t testing.TB, texts ...string) []route.Policy {
	t.Helper()
	policies := make([]route.Policy, len(texts))
	for i, text := range texts {
		if err := json.Unmarshal([]byte(text), &policies[i]); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	return policies
}

// damagedPolicies reads testdata/damaged.txt.
func damagedPolicies(t *testing.T) map[string][]string {
	t.Helper()
	text := must.Get(os.ReadFile("testdata/damaged.txt"))(t)
	damaged := make(map[string][]string)
	field := ""
	for line := range strings.SplitSeq(string(text), "\n") {
		policy, indented := strings.CutPrefix(line, "\t")
		switch {
		case line == "", strings.HasPrefix(line, "#"):
		case !indented:
			field = line
			damaged[field] = nil
		case !strings.HasPrefix(policy, "- "):
			damaged[field] = append(damaged[field], policy)
		}
	}
	return damaged
}

func TestDamagedPoliciesAreRefused(t *testing.T) {
	for field, texts := range damagedPolicies(t) {
		for _, text := range texts {
			chain, err := everything().Compile(policiesOf(t, pass, text))
			if err == nil || !chain.Empty() {
				t.Errorf("%s: %s is compiled (%v)", field, text, err)
				continue
			}
			if invalid, ok := errors.AsType[*refusal.Refusal](err); !ok || !strings.HasPrefix(invalid.Field, "policies[1]") {
				t.Errorf("%s: %s: %T, and its place is not policies[1]: %v", field, text, err, err)
			}
		}
	}
}

// A policy whose dependency is missing is refused, and all of the rule with it.
func TestMissingDependencies(t *testing.T) {
	for name, text := range owned {
		policies := policiesOf(t, pass, `{"chain": {"policies": [`+text+`]}}`)
		if chain, err := everything().Compile(policies); err != nil || chain.Empty() {
			t.Errorf("%s: %v", name, err)
		}
		chain, err := filter.Compile(policies, filter.NewCounters(start))
		if invalid, ok := errors.AsType[*refusal.Refusal](err); !ok || !chain.Empty() ||
			!strings.HasPrefix(invalid.Field, "policies[1].chain.policies[0]."+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMatrixIsComplete finds every field of every policy in the files and tables,
// so that a new one is not forgotten.
func TestMatrixIsComplete(t *testing.T) {
	damaged := damagedPolicies(t)
	policy := reflect.TypeFor[route.Policy]()
	for i := range policy.NumField() {
		action := jsonName(policy.Field(i))
		if action == "id" {
			continue
		}
		declaration := policy.Field(i).Type.Elem()
		for j := range declaration.NumField() {
			name := action + "." + jsonName(declaration.Field(j))
			if _, ok := damaged[name]; !ok {
				t.Errorf("there is no damaged %s", name)
			}
		}
	}
}

func jsonName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}

func TestCompileWithoutCounters(t *testing.T) {
	if chain, err := filter.Compile(nil, nil); err != nil || !chain.Empty() {
		t.Errorf("no policies need no counters: %v", err)
	}
	if _, err := filter.Compile(policiesOf(t, pass), nil); err == nil {
		t.Error("compiled without counters")
	}
}

func TestTooManyPolicies(t *testing.T) {
	many := slices.Repeat(policiesOf(t, pass), route.MaxPolicies+1)
	if _, err := filter.Compile(many, filter.NewCounters(start)); err == nil {
		t.Error("too many policies are compiled")
	}
	deep := policiesOf(t, pass)
	for range route.MaxChainDepth + 1 {
		deep = []route.Policy{{Chain: &route.Chain{Policies: deep}}}
	}
	if _, err := filter.Compile(deep, filter.NewCounters(start)); err == nil {
		t.Error("chains that are too deep are compiled")
	}
}

func TestInvalidSaysWhere(t *testing.T) {
	policies := policiesOf(t, pass, `{"chain": {"policies": [`+pass+`, {"basicAuth": {"users": "a:$5$salt$hash"}}]}}`)
	_, err := filter.Compile(policies, filter.NewCounters(start))
	want := "policies[1].chain.policies[1].basicAuth.users: line 1: the password is not hashed with bcrypt, apr1 or {SHA}; make the line with htpasswd -B"
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}
