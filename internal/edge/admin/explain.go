package admin

import (
	"cmp"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unique"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/httperr"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/edge/program"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/route"
)

// Explanation is the way of a request through the edge: how it is parsed, which rule
// serves it and why, which rules do not and why, and the action of the rule.
type Explanation struct {
	Request ReadRequest `json:"request"`
	// Refusal is set when the request is refused before any rule is matched.
	Refusal *RefusedRequest `json:"refusal,omitempty"`
	// Status is that of the edge's own response: of a refusal, of no route, of a rule
	// with a response. 0 means that the request is forwarded.
	Status int `json:"status,omitempty"`
	// Rule serves the request.
	Rule *route.ID `json:"rule,omitempty"`
	// Reason and Message are why the rule responds itself.
	Reason  route.Reason `json:"reason,omitempty"`
	Message string       `json:"message,omitempty"`
	// Steps are the rules whose host matches, in the order in which they are tried.
	Steps []ExplainedStep `json:"steps"`
	// Policies are those of the rule, in the order in which they run.
	Policies []ExplainedPolicy `json:"policies,omitempty"`
	// Directives are those of snippets, among the policies.
	Directives *route.Directives `json:"directives,omitempty"`
	// Rewrite is what the backend gets instead of host and path, after the policies.
	Rewrite *route.Rewrite `json:"rewrite,omitempty"`
	// Backends are those of the rule, with their endpoints.
	Backends []ExplainedBackend `json:"backends,omitempty"`
	// Text is the explanation for people, if it was requested.
	Text string `json:"text,omitempty"`
}

// ReadRequest is a request in the spelling that is matched and forwarded.
type ReadRequest struct {
	EntryPoint string `json:"entryPoint,omitempty"`
	// Listener is set for a request of a listener, instead of EntryPoint.
	Listener string `json:"listener,omitempty"`
	TLS      bool   `json:"tls"`
	Method   string `json:"method"`
	Host     string `json:"host,omitempty"`
	Path     string `json:"path,omitempty"`
	Query    string `json:"query,omitempty"`
	// Rewritten reports that the path was given in another spelling.
	Rewritten bool `json:"rewritten,omitempty"`
	// Client is the address of the client, if it was given.
	Client netip.Addr `json:"client,omitzero"`
}

// RefusedRequest is why a request is refused by the parser.
type RefusedRequest struct {
	Status int `json:"status"`
	// Label is the name of the fault in metrics.
	Label   string `json:"label"`
	Message string `json:"message"`
}

// Wins is the verdict about the rule that serves the request.
const Wins = program.Wins

// ExplainedStep is the verdict about one rule.
type ExplainedStep struct {
	// ID is nil in the step that counts the rules that were left out.
	ID       *route.ID        `json:"id,omitempty"`
	Name     string           `json:"name,omitempty"`
	Decision program.Decision `json:"verdict"`
	Why      string           `json:"why"`
}

// ExplainedPolicy is a policy of the rule that serves the request.
type ExplainedPolicy struct {
	// Name is the one that it has in a routes file, such as stripPrefix.
	Name string `json:"name"`
	// ID names the declaration, where it has one.
	ID route.PolicyID `json:"id,omitzero"`
	// Settings are those of a routes file, without their secrets.
	Settings json.RawMessage `json:"settings"`
}

// ExplainedBackend is a backend of the rule that serves the request.
type ExplainedBackend struct {
	BackendPart
	// Status is the response to this share, where its backend does not resolve.
	Status    int                      `json:"status,omitempty"`
	Broken    string                   `json:"broken,omitempty"`
	Endpoints []upstream.EndpointState `json:"endpoints"`
}

// explainRequest is the request to explain, from the parameters.
type explainRequest struct {
	method, authority, target string
	tls                       bool
	headers                   [][2]string
	// client is the address that rules for clients are matched against; zero if unknown.
	client netip.Addr
}

// Explain explains a request. The values are the parameters of the page explain: url,
// method, entryPoint (or a listener such as infra/public:80), header, client.
func Explain(source Source, values url.Values) (*Explanation, error) {
	explanation, err := getExplanation(source, &query{values: values})
	if err != nil {
		return nil, err
	}
	return explanation.(*Explanation), nil
}

// getExplanation serves the page explain.
func getExplanation(source Source, q *query) (any, error) {
	request, err := parseExplainRequest(q)
	if err != nil {
		return nil, err
	}
	places, err := choosePlaces(source, q.get("entryPoint"), &request)
	if err != nil {
		return nil, err
	}
	// The first place that serves the request is explained, or else the first.
	var explanation *Explanation
	for _, at := range places {
		found := explain(source, at, request)
		served := found.Rule != nil && found.Status != http.StatusNotFound
		if explanation == nil || served {
			explanation = found
		}
		if served || found.Refusal != nil {
			break
		}
	}
	// The text is made on demand: it is for terminals.
	if q.get("text") != "" {
		explanation.Text = explanation.Prose()
	}
	return explanation, nil
}

// parseExplainRequest parses the parameters.
func parseExplainRequest(q *query) (explainRequest, error) {
	address := q.get("url")
	if address == "" {
		return explainRequest{}, badRequestf("the parameter url is missing: get one such as https://shop.example.com/cart")
	}
	// A URL without a method means GET, as in a browser.
	a := explainRequest{method: q.get("method")}
	a.method = cmp.Or(a.method, "GET")
	// The URL is split by hand: net/url would repair spellings that the edge refuses.
	scheme, rest, found := strings.Cut(address, "://")
	switch {
	case found && scheme == "http":
	case found && scheme == "https":
		a.tls = true
	default:
		return explainRequest{}, badRequestf("url is %q: start it with http:// or https://", address)
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	a.authority, a.target = rest[:end], rest[end:]
	if !strings.HasPrefix(a.target, "/") {
		a.target = "/" + a.target
	}
	if given := q.get("client"); given != "" {
		client, err := netip.ParseAddr(given)
		if err != nil {
			return explainRequest{}, badRequestf("client is %q: write an address such as 192.0.2.1", given)
		}
		a.client = client.Unmap().WithZone("")
	}
	// header may be repeated, as headers may.
	for _, line := range q.values["header"] {
		name, value, found := strings.Cut(line, ":")
		if !found {
			return explainRequest{}, badRequestf("header is %q: write it as Name: value", line)
		}
		a.headers = append(a.headers, [2]string{name, strings.TrimSpace(value)})
	}
	return a, nil
}

// place is where a request comes in: an entry point, or a listener of the table.
type place struct {
	EntryPoint
	listener route.ListenerID
}

// choosePlaces returns the entry point or listener with the name. Without one it
// returns the entry point that choosePoint chooses, and then the listeners that a
// request for the URL could come to.
func choosePlaces(source Source, name string, request *explainRequest) ([]place, error) {
	var listeners []place
	if table := source.Table(); table != nil {
		for _, l := range slices.SortedFunc(slices.Values(table.Listeners), func(a, b *route.Listener) int { return a.ID.Compare(b.ID) }) {
			at := place{EntryPoint{Name: l.ID.String(), TLS: l.TLS, Limits: h1.DefaultLimits()}, l.ID}
			if at.Name == name {
				return []place{at}, nil
			}
			if l.TLS == request.tls && strconv.Itoa(int(l.ID.Port)) == request.port() {
				listeners = append(listeners, at)
			}
		}
	}
	point, err := choosePoint(source.EntryPoints(), name, request.tls)
	if err != nil {
		return nil, err
	}
	if name != "" {
		listeners = nil
	}
	return append([]place{{EntryPoint: point}}, listeners...), nil
}

// port returns the port of the URL.
func (a *explainRequest) port() string {
	if _, port, err := net.SplitHostPort(a.authority); err == nil {
		return port
	}
	if a.tls {
		return "443"
	}
	return "80"
}

// choosePoint returns the entry point with the name, or without one the first whose
// encryption matches the URL, or the first.
func choosePoint(points []EntryPoint, name string, tls bool) (EntryPoint, error) {
	points = slices.DeleteFunc(slices.Clone(points), func(point EntryPoint) bool { return point.UDP })
	// https prefers an encrypted entry point, because redirects depend on it.
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

// explain parses the request as the edge does, by composing it and parsing it with
// the edge's own parser, and looks it up in the live Program.
func explain(source Source, at place, a explainRequest) *Explanation {
	out := &Explanation{
		Request: ReadRequest{TLS: a.tls, Method: a.method, Client: a.client}, Steps: []ExplainedStep{},
	}
	request := program.Request{TLS: a.tls, Method: a.method, Client: a.client}
	if at.listener != (route.ListenerID{}) {
		out.Request.Listener, request.Listener = at.Name, unique.Make(at.listener)
	} else {
		out.Request.EntryPoint, request.EntryPoint = at.Name, at.Name
	}
	var head h1.Head
	if err := parse(&head, at.Limits, a); err != nil {
		out.Status = h1.StatusOf(err)
		out.Refusal = &RefusedRequest{Status: out.Status, Label: httperr.Of(err).Reason, Message: err.Error()}
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
	// The same lookup as for a request, which also records its steps.
	request.Host, request.Path, request.Query = out.Request.Host, out.Request.Path, out.Request.Query
	request.Header = h1.Headers{Fields: &head.Fields}
	steps := compiled.Explain(&request)
	// Until a step wins, the request has no route.
	out.Status = 404
	for _, step := range steps {
		shown := ExplainedStep{Decision: step.Decision, Why: shownWhy(step.Why, step.Rule)}
		if step.Rule != nil {
			shown.ID, shown.Name = &step.Rule.ID, step.Rule.ID.String()
		}
		out.Steps = append(out.Steps, shown)
		if step.Decision == Wins {
			out.servedBy(step.Rule, source)
		}
	}
	return out
}

// servedBy adds the action of the rule that serves the request.
func (out *Explanation) servedBy(rule *route.Rule, source Source) {
	out.Rule, out.Status, out.Rewrite, out.Directives = &rule.ID, 0, rule.Rewrite, rule.Directives
	for _, policy := range shownPolicies(rule.Policies) {
		out.Policies = append(out.Policies, explainedPolicy(&policy))
	}
	if rule.Response != nil {
		out.Status, out.Reason, out.Message = rule.Response.Status, rule.Response.Reason, rule.Response.Message
	}
	// A rule with a response needs no state of backends.
	if len(rule.Backends) == 0 {
		return
	}
	states := source.Upstreams()
	for _, ref := range rule.Backends {
		backend := ExplainedBackend{
			BackendPart: BackendPart{ID: ref.Backend, Name: ref.Backend.String(), Weight: ref.Weight},
			Status:      ref.Status, Endpoints: []upstream.EndpointState{},
		}
		// A backend without state is one that the edge has not set up: it has no endpoints.
		at := slices.IndexFunc(states, func(s upstream.BackendState) bool { return s.ID == ref.Backend })
		if at >= 0 {
			backend.Broken, backend.Endpoints = states[at].Broken, states[at].Endpoints
		}
		out.Backends = append(out.Backends, backend)
	}
}

// explainedPolicy converts a policy, redacted by its types.
func explainedPolicy(p *route.Policy) ExplainedPolicy {
	name, action := p.Named()
	settings, err := json.Marshal(action)
	if err != nil { // plain values cannot fail
		settings = []byte("null")
	}
	return ExplainedPolicy{Name: name, ID: p.ID, Settings: settings}
}

// parse composes the request and parses it.
func parse(head *h1.Head, limits h1.Limits, a explainRequest) error {
	// Composing refuses what a client of HTTP/2 could not send either.
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
