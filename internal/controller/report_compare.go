package controller

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/edge/admin"
	"slipway.dev/slipway/internal/edge/program"
	"slipway.dev/slipway/internal/ingress/difference"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// maxComputed bounds the computed differences of an object. Others are counted.
const maxComputed = 3

// compare compares how requests are handled with and without owners of hosts, and for
// Ingresses of other controllers by the specification: requests for the paths of all
// objects, and for paths that are close to them.
func (r *reporting) compare() {
	c := &requestComparison{reporting: r, seen: map[string]bool{}, shown: map[*ReportedObject]int{}, granted: hostAdvice(r.given.refusals)}
	c.plain, c.encrypted = r.points()
	c.specification = newSpecification(r)
	rules := r.open.table.server.Table().Rules
	rules = slices.SortedFunc(slices.Values(rules), func(a, b *route.Rule) int { return a.ID.Compare(b.ID) })
	for _, rule := range rules {
		if object := r.objects[refOfRule(rule.ID)]; object != nil && rule.Listener == (route.ListenerID{}) {
			c.rule(object, rule)
		}
	}
	r.result.Counts.Requests = len(c.seen)
}

// points returns the first entry point for plain and the first for encrypted requests,
// empty for none.
func (r *reporting) points() (plain, encrypted string) {
	for name, point := range r.Options.EntryPoints {
		at := &plain
		if point.HTTP.TLS {
			at = &encrypted
		}
		if *at == "" || name < *at {
			*at = name
		}
	}
	return plain, encrypted
}

// hostAdvice returns the objects with hosts of other namespaces, with the text of the
// refusal by field.
func hostAdvice(refusals []refusal.Refusal) map[snapshot.Ref][]refusal.Refusal {
	denied := map[snapshot.Ref][]refusal.Refusal{}
	for _, refused := range refusals {
		if refused.Reason == refusal.HostNotGranted {
			ref := snapshot.RefOf(refused.Object)
			denied[ref] = append(denied[ref], refused)
		}
	}
	return denied
}

// requestComparison is the state of the comparison.
type requestComparison struct {
	*reporting
	plain, encrypted string
	// seen are the requests that were compared.
	seen map[string]bool
	// granted are the refusals of hosts of other namespaces.
	granted map[snapshot.Ref][]refusal.Refusal
	// shown counts the requests of an object in the report, and last is the rule of the
	// last of them.
	shown         map[*ReportedObject]int
	last          route.ID
	specification *specification
}

// probe is a request for a rule: the method, headers and parameters that it has
// conditions on, as far as these are exact.
type probe struct {
	method  string
	headers probeHeaders
	query   string
}

// probeHeaders are headers by their canonical names.
type probeHeaders []route.HeaderValue

// Value implements program.Header.
func (h probeHeaders) Value(name string, i int) (string, bool) {
	for _, header := range h {
		if header.Name != name {
			continue
		}
		if i == 0 {
			return header.Value, true
		}
		i--
	}
	return "", false
}

// probeOf returns the request for the conditions of a rule.
func probeOf(match *route.Match) probe {
	p := probe{method: http.MethodGet}
	if len(match.Methods) > 0 {
		p.method = match.Methods[0]
	}
	for _, header := range match.Headers {
		if header.Type != route.ValueRegexp {
			p.headers = append(p.headers, route.HeaderValue{Name: http.CanonicalHeaderKey(header.Name), Value: header.Value})
		}
	}
	values := url.Values{}
	for _, parameter := range match.Query {
		if parameter.Type != route.ValueRegexp {
			values.Set(parameter.Name, parameter.Value)
		}
	}
	p.query = values.Encode()
	return p
}

// example returns the request for the report.
func (p *probe) example(address string) difference.Example {
	made := difference.Example{URL: address, Method: p.method}
	for _, header := range p.headers {
		made.Headers = append(made.Headers, header.Name+": "+header.Value)
	}
	if p.query != "" {
		made.URL += "?" + p.query
	}
	return made
}

// rule compares the requests of a rule.
func (c *requestComparison) rule(object *ReportedObject, rule *route.Rule) {
	host, sent := difference.HostFor(rule.Host), probeOf(&rule.Match)
	for _, path := range probesOf(rule.Match.Path) {
		for _, at := range []struct {
			scheme, point string
			tls           bool
		}{{"http", c.plain, false}, {"https", c.encrypted, true}} {
			address := at.scheme + "://" + host + path
			key := fmt.Sprint(address, sent)
			if at.point == "" || c.seen[key] || len(rule.EntryPoints) > 0 && !slices.Contains(rule.EntryPoints, at.point) {
				continue
			}
			c.seen[key] = true
			request := program.Request{
				EntryPoint: at.point, TLS: at.tls, Host: host, Path: path, Method: sent.method, Header: sent.headers, Query: sent.query,
			}
			if c.request(object, rule, request, sent.example(address)) {
				break // the encrypted request differs in the same way
			}
		}
	}
}

// request compares one request, and reports whether it is handled otherwise. A rule has one
// request in the report, and others are counted.
func (c *requestComparison) request(object *ReportedObject, rule *route.Rule, request program.Request, example difference.Example) bool {
	before, after := c.open.table.lookup(&request), c.given.table.lookup(&request)
	d := computed(difference.Routing)
	switch {
	case before != after:
		if denied := c.deniedFor(object.ref, rule.Host); denied != nil {
			d = computed(difference.HostOwner)
			_, d.Advice, _ = strings.Cut(denied.Message, ": ")
		}
	case object.Source == difference.Plain && len(object.Refusals) == 0:
		specified, known := c.specification.lookup(request.Host, request.Path)
		if serving := servedBy(c.given.table.find(&request)); known && serving != "" && serving != specified {
			d, before = computed(difference.Specification), cmp.Or(specified, "404")
			break
		}
		return false
	default:
		return false
	}
	if shown := c.shown[object]; shown >= maxComputed || shown > 0 && c.last == rule.ID {
		object.Omitted++
		return true
	}
	c.shown[object]++
	c.last = rule.ID
	example.Before, example.After = shortened(before, after)
	c.addDifference(object, d, example)
	return true
}

// shortened returns two effects without the parts behind the first difference: the
// Service alone if it differs, and otherwise also what it gets.
func shortened(before, after string) (string, string) {
	for _, end := range []string{" by ", " gets ", ", "} {
		a, _, _ := strings.Cut(before, end)
		b, _, _ := strings.Cut(after, end)
		if a != b {
			return a, b
		}
	}
	return before, after
}

// deniedFor returns the refusal of a host of an object, nil if it may have it.
func (c *requestComparison) deniedFor(ref snapshot.Ref, host string) *refusal.Refusal {
	for i := range c.granted[ref] {
		denied := &c.granted[ref][i]
		if host == "" || strings.Contains(denied.Message, "the host "+host+" belongs") {
			return denied
		}
	}
	return nil
}

// find returns the rule of a request, nil for none.
func (t rulesOf) find(request *program.Request) *route.Rule {
	compiled := t.server.Program()
	if compiled == nil {
		return nil
	}
	return compiled.Lookup(request).Rule
}

// lookup describes how a request is handled.
func (t rulesOf) lookup(request *program.Request) string {
	rule := t.find(request)
	if rule == nil {
		return "404"
	}
	return effectOf(rule, t.backends, &admin.ReadRequest{TLS: request.TLS, Method: request.Method, Host: request.Host, Path: request.Path})
}

// servedBy returns the Service of a rule that forwards requests, empty for others.
func servedBy(rule *route.Rule) string {
	if rule == nil || len(rule.Backends) != 1 || len(rule.Policies) > 0 || rule.Backends[0].Status != 0 {
		return ""
	}
	return serviceText(rule.Backends[0].Backend.Namespace, rule.Backends[0].Backend.Name)
}

func serviceText(namespace, name string) string { return "Service " + namespace + "/" + name }

// probesOf returns paths that a match selects, and some that are close to them: below it,
// with more letters, in another case, with a slash at the end.
func probesOf(match route.PathMatch) []string {
	path := difference.PathFor(match)
	stem := strings.TrimSuffix(path, "/")
	probes := []string{path, stem + "/", stem + "/probe", path + "probe"}
	if upper := strings.ToUpper(path); upper != path {
		probes = append(probes, upper)
	}
	return probes
}
