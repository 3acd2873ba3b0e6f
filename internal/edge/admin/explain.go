package admin

import (
	"encoding/json"
	"errors"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/edge/program"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/route"
)

// Explanation says what becomes of a request: how it is read, which rule takes
// it and why, which rules do not and why, and what the rule does with it.
type Explanation struct {
	Request ReadRequest `json:"request"`
	// Refusal is set when the request is refused before any rule is asked.
	Refusal *RefusedRequest `json:"refusal,omitempty"`
	// Status is the answer, where the edge gives it itself and no policy does:
	// of a refusal, of no route, of a rule with a response. 0 asks a backend.
	Status int `json:"status,omitempty"`
	// Rule is the one that takes the request.
	Rule *route.ID `json:"rule,omitempty"`
	// Reason and Message say why the rule gives the answer itself.
	Reason  route.Reason `json:"reason,omitempty"`
	Message string       `json:"message,omitempty"`
	// Steps are the rules whose host fits, in the order in which they are asked.
	Steps []ExplainedStep `json:"steps"`
	// Policies are those of the rule, in the order in which they run.
	Policies []ExplainedPolicy `json:"policies,omitempty"`
	// Backends are those of the rule, with their endpoints.
	Backends []ExplainedBackend `json:"backends,omitempty"`
	// Text is all of it for people, if it was asked for.
	Text string `json:"text,omitempty"`
}

// ReadRequest is a request in the spelling that is matched and forwarded.
type ReadRequest struct {
	EntryPoint string `json:"entryPoint"`
	TLS        bool   `json:"tls"`
	Method     string `json:"method"`
	Host       string `json:"host,omitempty"`
	Path       string `json:"path,omitempty"`
	Query      string `json:"query,omitempty"`
	// Rewritten says that the path was given in another spelling.
	Rewritten bool `json:"rewritten,omitempty"`
}

// RefusedRequest says why a request is not read.
type RefusedRequest struct {
	Status int `json:"status"`
	// Label is the name of the fault in metrics.
	Label   string `json:"label"`
	Message string `json:"message"`
}

// Wins is the verdict about the rule that takes the request.
const Wins = program.Wins

// ExplainedStep is what became of one rule.
type ExplainedStep struct {
	// ID is nil in the step that counts the rules that were left out.
	ID      *route.ID       `json:"id,omitempty"`
	Name    string          `json:"name,omitempty"`
	Verdict program.Verdict `json:"verdict"`
	Why     string          `json:"why"`
}

// ExplainedPolicy is a policy of the rule that takes the request.
type ExplainedPolicy struct {
	// Name is the one that it has in a routes file, such as stripPrefix.
	Name string `json:"name"`
	// ID names the declaration, where it has one.
	ID route.PolicyID `json:"id,omitzero"`
	// Settings are those of a routes file, without their secrets.
	Settings json.RawMessage `json:"settings"`
}

// ExplainedBackend is a backend of the rule that takes the request.
type ExplainedBackend struct {
	BackendPart
	Broken    string                   `json:"broken,omitempty"`
	Endpoints []upstream.EndpointState `json:"endpoints"`
}

// asked is a request that somebody asks about.
type asked struct {
	method, authority, target string
	tls                       bool
	headers                   [][2]string
}

// Explain says what becomes of a request. The values are those of the page
// explain: url, method, entryPoint, header.
func Explain(source Source, values url.Values) (*Explanation, error) {
	answer, err := giveExplanation(source, &query{values: values})
	if err != nil {
		return nil, err
	}
	return answer.(*Explanation), nil
}

func giveExplanation(source Source, q *query) (any, error) {
	request, err := readQuestion(q)
	if err != nil {
		return nil, err
	}
	point, err := choosePoint(source.EntryPoints(), q.get("entryPoint"), request.tls)
	if err != nil {
		return nil, err
	}
	explanation := explain(source, point, request)
	if q.get("text") != "" {
		explanation.Text = explanation.Prose()
	}
	return explanation, nil
}

func readQuestion(q *query) (asked, error) {
	address := q.get("url")
	if address == "" {
		return asked{}, badRequestf("the parameter url is missing: give one such as https://shop.example.com/cart")
	}
	a := asked{method: q.get("method")}
	if a.method == "" {
		a.method = "GET"
	}
	// The URL is taken apart by hand: net/url would repair what the edge refuses.
	scheme, rest, found := strings.Cut(address, "://")
	switch {
	case found && scheme == "http":
	case found && scheme == "https":
		a.tls = true
	default:
		return asked{}, badRequestf("url is %q: start it with http:// or https://", address)
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	a.authority, a.target = rest[:end], rest[end:]
	if !strings.HasPrefix(a.target, "/") {
		a.target = "/" + a.target
	}
	for _, line := range q.values["header"] {
		name, value, found := strings.Cut(line, ":")
		if !found {
			return asked{}, badRequestf("header is %q: write it as Name: value", line)
		}
		a.headers = append(a.headers, [2]string{name, strings.TrimSpace(value)})
	}
	return a, nil
}

// choosePoint is the entry point with the name, or without one the first that
// is encrypted as the URL says, or the first.
func choosePoint(points []EntryPoint, name string, tls bool) (EntryPoint, error) {
	if name == "" {
		for _, point := range points {
			if point.TLS == tls {
				return point, nil
			}
		}
		if len(points) > 0 {
			return points[0], nil
		}
		return EntryPoint{}, errors.New("the edge has no entry point")
	}
	var names []string
	for _, point := range points {
		if point.Name == name {
			return point, nil
		}
		names = append(names, point.Name)
	}
	return EntryPoint{}, badRequestf("there is no entry point %q: choose one of %s", name, strings.Join(names, ", "))
}

// explain reads the request as the edge does, by writing it out and parsing it
// with the edge's own parser, and asks the live Program about it.
func explain(source Source, point EntryPoint, a asked) *Explanation {
	out := &Explanation{
		Request: ReadRequest{EntryPoint: point.Name, TLS: a.tls, Method: a.method}, Steps: []ExplainedStep{},
	}
	var head h1.Head
	if err := parse(&head, point.Limits, a); err != nil {
		out.Status = h1.StatusOf(err)
		out.Refusal = &RefusedRequest{Status: out.Status, Label: h1.LabelOf(err), Message: err.Error()}
		return out
	}
	uri := &head.URI
	out.Request.Host, out.Request.Path, out.Request.Query = string(uri.Host), string(uri.Path), string(uri.Query)
	out.Request.Rewritten = uri.Rewritten
	compiled := source.Program()
	if compiled == nil {
		out.Status = 503
		return out
	}
	steps := compiled.Explain(&program.Request{
		EntryPoint: point.Name, TLS: a.tls, Host: out.Request.Host, Path: out.Request.Path,
		Method: a.method, Query: out.Request.Query, Header: h1.Headers{Fields: &head.Fields},
	})
	out.Status = 404
	for _, step := range steps {
		shown := ExplainedStep{Verdict: step.Verdict, Why: shownWhy(step.Why, step.Rule)}
		if step.Rule != nil {
			shown.ID, shown.Name = &step.Rule.ID, step.Rule.ID.String()
		}
		out.Steps = append(out.Steps, shown)
		if step.Verdict == Wins {
			out.takenBy(step.Rule, source)
		}
	}
	return out
}

func (out *Explanation) takenBy(rule *route.Rule, source Source) {
	out.Rule, out.Status = &rule.ID, 0
	for _, policy := range shownPolicies(rule.Policies) {
		out.Policies = append(out.Policies, explainedPolicy(&policy))
	}
	if rule.Response != nil {
		out.Status, out.Reason, out.Message = rule.Response.Status, rule.Response.Reason, rule.Response.Message
	}
	if len(rule.Backends) == 0 {
		return
	}
	states := source.Upstreams()
	for _, ref := range rule.Backends {
		backend := ExplainedBackend{
			BackendPart: BackendPart{ID: ref.Backend, Name: ref.Backend.String(), Weight: ref.Weight},
			Endpoints:   []upstream.EndpointState{},
		}
		at := slices.IndexFunc(states, func(s upstream.BackendState) bool { return s.ID == ref.Backend })
		if at >= 0 {
			backend.Broken, backend.Endpoints = states[at].Broken, states[at].Endpoints
		}
		out.Backends = append(out.Backends, backend)
	}
}

func explainedPolicy(p *route.Policy) ExplainedPolicy {
	settings, err := json.Marshal(p.Action())
	if err != nil { // plain values always can be written
		settings = []byte("null")
	}
	return ExplainedPolicy{Name: policyName(p), ID: p.ID, Settings: settings}
}

// parse reads the request that was asked about.
func parse(head *h1.Head, limits h1.Limits, a asked) error {
	var composer h1.Composer
	composer.Start(nil, a.method, a.target, a.authority)
	for _, header := range a.headers {
		composer.Field(header[0], header[1])
	}
	text, err := composer.End(h1.NoBody, 0)
	if err != nil {
		return err
	}
	n, err := head.Parse(text, &limits)
	if err == nil && n != len(text) {
		err = normalize.ErrTargetByte
	}
	return err
}

// policyName is the name that the policy has in a routes file.
func policyName(p *route.Policy) string {
	v := reflect.ValueOf(p).Elem()
	for i := range v.NumField() {
		if field := v.Field(i); field.Kind() == reflect.Pointer && !field.IsNil() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			return name
		}
	}
	return ""
}
