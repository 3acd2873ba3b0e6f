package controller

import (
	"net/url"
	"slices"
	"strings"

	"slipway.dev/slipway/internal/edge"
	"slipway.dev/slipway/internal/edge/admin"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/ingress/convert"
	"slipway.dev/slipway/internal/route"
)

// maxDifferences bounds the differences that are listed. One mistake can affect every
// path of a cluster.
const maxDifferences = 1000

// rulesOf is a proxy with its rules and backends by identity.
type rulesOf struct {
	server   *edge.Server
	rules    map[route.ID]*route.Rule
	backends map[route.BackendID]*route.Backend
}

func tableOf(server *edge.Server) rulesOf {
	t := rulesOf{server: server, rules: map[route.ID]*route.Rule{}, backends: map[route.BackendID]*route.Backend{}}
	table := server.Table()
	for _, rule := range table.Rules {
		t.rules[rule.ID] = rule
	}
	for _, backend := range table.Backends {
		t.backends[backend.ID] = backend
	}
	return t
}

// withoutStates is a proxy without the state of its backends, which is that of all
// of them for each request, and is not compared.
type withoutStates struct{ *edge.Server }

// Upstreams implements admin.Source.
func (withoutStates) Upstreams() []upstream.BackendState { return nil }

// comparison compares which rule serves requests before and after a conversion.
type comparison struct {
	before, after rulesOf
	points        map[string]bool
	result        *Conversion
}

// run compares requests for each path of the converted Ingresses: those that it
// matches, and those that are close to it.
func (c comparison) run(ingresses []convert.Ingress) {
	seen := map[string]bool{}
	for _, place := range c.result.Places {
		at := slices.IndexFunc(ingresses, func(in convert.Ingress) bool { return in.Resolved.Ingress == place.Ingress })
		paths := ingresses[at].Resolved.Paths
		for i := range paths {
			if paths[i].Host != place.Host {
				continue
			}
			for _, path := range probePaths(paths[i].Match) {
				address := probeHost(place.Host) + path
				if place.Plain && !seen["http://"+address] {
					seen["http://"+address] = true
					c.compare(place, "http://"+address, false)
				}
				if place.Encrypted && !seen["https://"+address] {
					seen["https://"+address] = true
					c.compare(place, "https://"+address, true)
				}
			}
		}
	}
	c.result.Compared = len(seen)
}

// compare compares one request.
func (c comparison) compare(place convert.Place, address string, encrypted bool) {
	listener := route.ListenerID{Namespace: place.Gateway.Namespace, Name: place.Gateway.Name, Port: 80}
	if encrypted {
		listener.Port = 443
	}
	before, after := c.before.handled(address, c.point(encrypted)), c.after.handled(address, listener.String())
	if before != after && len(c.result.Differences) < maxDifferences {
		c.result.Differences = append(c.result.Differences, Difference{Ingress: place.Ingress.String(), URL: address, Before: before, After: after})
	}
}

// point returns the first entry point that takes encrypted or plain connections.
func (c comparison) point(encrypted bool) string {
	var names []string
	for name, tls := range c.points {
		if tls == encrypted {
			names = append(names, name)
		}
	}
	return slices.Min(names)
}

// handled describes how a request is handled, equally for an Ingress and a route.
func (t rulesOf) handled(address, at string) string {
	explained, err := admin.Explain(withoutStates{t.server}, url.Values{"url": {address}, "entryPoint": {at}})
	switch {
	case err != nil:
		return err.Error()
	case explained.Refusal != nil:
		return "refused: " + explained.Refusal.Message
	case explained.Rule == nil:
		return "404"
	}
	return effectOf(t.rules[*explained.Rule], t.backends, &explained.Request)
}

// probeHost returns a host that a rule matches. A wildcard has one more label, as in
// an Ingress.
func probeHost(host string) string {
	if parent, wildcard := route.WildcardParent(host); wildcard {
		return "probe." + parent
	}
	if host == "" {
		return "probe.invalid"
	}
	return host
}

// probePaths returns paths that a match selects, and some that are close to them.
func probePaths(match route.PathMatch) []string {
	literal := match.Literal()
	if !strings.HasPrefix(literal, "/") {
		literal = "/" + literal
	}
	stem := strings.TrimSuffix(literal, "/")
	return []string{literal, stem + "/", stem + "/probe", literal + "probe"}
}
