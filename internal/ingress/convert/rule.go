package convert

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/route"
)

// maxExpression bounds the value of a path in Gateway API.
const maxExpression = 1024

// plainPath matches the paths that Gateway API accepts in a match, besides expressions.
var plainPath = regexp.MustCompile(`^/(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|%[0-9a-fA-F]{2})*$`)

// readPath adds the rule of a path.
func (d *draft) readPath(path *resolve.Path, filters *filterSet) {
	if d.kept {
		return
	}
	field := fmt.Sprintf("spec.rules[%d].http.paths[%d]", path.Rule, path.Index)
	if path.Default {
		field = "spec.defaultBackend"
	}
	if path.Target.Closed != nil {
		d.keep(field, "it is refused today: %s", path.Target.Closed.Message)
		return
	}
	at := slices.IndexFunc(d.paths, func(of hostPaths) bool { return of.host == path.Host })
	if at < 0 {
		at = len(d.paths)
		d.paths = append(d.paths, hostPaths{host: path.Host})
	}
	of := &d.paths[at]
	match, problem := matchOf(path)
	if problem != "" {
		d.keep(field+".path", "%s", problem)
		return
	}
	// A path for everything leaves nothing for the default backend.
	if path.Default && slices.ContainsFunc(of.rules, func(rule gatewayv1.HTTPRouteRule) bool { return matchesAll(&rule) }) {
		return
	}
	rule := gatewayv1.HTTPRouteRule{Matches: []gatewayv1.HTTPRouteMatch{{Path: match}}}
	rule.Filters, problem = filters.of(path.Match)
	if problem != "" {
		d.keep(field, "%s", problem)
		return
	}
	backend := d.backendOf(path)
	ref, problem := d.backendRef(backend)
	if problem == "" && path.Target.Missing == nil && !d.in.SameTransport(path.Target.Backend) {
		problem = fmt.Sprintf("the Service %s is reached by another protocol from a route, which does not derive it from the number or name of a port: set appProtocol of the port", backend.Name)
	}
	if problem != "" {
		d.keep(field, "%s", problem)
		return
	}
	rule.BackendRefs = []gatewayv1.HTTPBackendRef{ref}
	rule.Timeouts = d.timeouts(path)
	of.rules = append(of.rules, rule)
	if filters.differsAt(path.Match) {
		exact := route.PathMatch{Type: route.PathExact, Value: path.Match.Literal()}
		kind := gatewayv1.PathMatchExact
		rule.Matches = []gatewayv1.HTTPRouteMatch{{Path: &gatewayv1.HTTPPathMatch{Type: &kind, Value: &exact.Value}}}
		rule.Filters, _ = filters.of(exact)
		of.exact = append(of.exact, rule)
	}
}

// addExact adds the rules for single paths that no path of the Ingress matches
// exactly.
func (of *hostPaths) addExact() {
	for _, extra := range of.exact {
		value := *extra.Matches[0].Path.Value
		if !slices.ContainsFunc(of.rules, func(rule gatewayv1.HTTPRouteRule) bool {
			match := rule.Matches[0].Path
			return *match.Type == gatewayv1.PathMatchExact && *match.Value == value
		}) {
			of.rules = append(of.rules, extra)
		}
	}
}

// matchOf returns the match of a path, or why there is none.
func matchOf(path *resolve.Path) (*gatewayv1.HTTPPathMatch, string) {
	kind, value := gatewayv1.PathMatchPathPrefix, path.Match.Value
	switch path.Match.Type {
	case "":
		value = "/"
	case route.PathExact:
		kind = gatewayv1.PathMatchExact
	case route.PathCharacterPrefix:
		kind, value = gatewayv1.PathMatchRegularExpression, regexp.QuoteMeta(value)+".*"
	case route.PathRegexp:
		// It matches from the start of the path, and in a route all of it.
		kind, value = gatewayv1.PathMatchRegularExpression, "(?:"+value+").*"
	case route.PathPrefix:
	}
	switch {
	case kind == gatewayv1.PathMatchRegularExpression && len(value) > maxExpression:
		return nil, fmt.Sprintf("the expression has more than the %d bytes that Gateway API allows", maxExpression)
	case kind != gatewayv1.PathMatchRegularExpression && !acceptedPath(value):
		return nil, fmt.Sprintf("Gateway API does not allow the path %q", value)
	}
	return &gatewayv1.HTTPPathMatch{Type: &kind, Value: &value}, ""
}

// acceptedPath reports whether Gateway API allows a path, as the rules of its
// definitions have it.
func acceptedPath(path string) bool {
	if !plainPath.MatchString(path) || len(path) > maxExpression || strings.HasSuffix(path, "/.") || strings.HasSuffix(path, "/..") {
		return false
	}
	return !slices.ContainsFunc([]string{"//", "/./", "/../", "%2f", "%2F"}, func(part string) bool { return strings.Contains(path, part) })
}

// matchesAll reports whether a rule matches every path.
func matchesAll(rule *gatewayv1.HTTPRouteRule) bool {
	match := rule.Matches[0].Path
	return *match.Type == gatewayv1.PathMatchPathPrefix && *match.Value == "/"
}

// backendOf returns the backend of a path as it is written.
func (d *draft) backendOf(path *resolve.Path) *networkingv1.IngressServiceBackend {
	spec := &d.in.Object.Spec
	if path.Default {
		return spec.DefaultBackend.Service
	}
	return spec.Rules[path.Rule].HTTP.Paths[path.Index].Backend.Service
}

// backendRef returns the reference to a Service, or why there is none.
func (d *draft) backendRef(written *networkingv1.IngressServiceBackend) (gatewayv1.HTTPBackendRef, string) {
	number := written.Port.Number
	if number == 0 {
		number = d.in.PortOf(written.Name, written.Port.Name)
	}
	if number == 0 {
		return gatewayv1.HTTPBackendRef{}, fmt.Sprintf("the number of the port %s of the Service %s is not known: write the number", written.Port.Name, written.Name)
	}
	var ref gatewayv1.HTTPBackendRef
	port := gatewayv1.PortNumber(number)
	ref.Name, ref.Port = gatewayv1.ObjectName(written.Name), &port
	return ref, ""
}

// timeouts returns the timeouts of a path. The Ingress's own come before those of the
// backend's transport, as in the edge.
func (d *draft) timeouts(path *resolve.Path) *gatewayv1.HTTPRouteTimeouts {
	own, transport := d.in.Resolved.Timeouts, path.Target.Timeouts
	if cmp.Or(own.Connect, transport.Connect, own.Header, transport.Header, own.Idle, transport.Idle) != 0 {
		d.noteOnce("metadata.annotations", "Gateway API has a timeout for all of a request only: those for connecting, heads and pauses are the edge's")
	}
	total := cmp.Or(own.Total, transport.Total)
	if total == 0 {
		return nil
	}
	written := durationOf(time.Duration(total))
	return &gatewayv1.HTTPRouteTimeouts{Request: &written}
}

// durationOf writes a duration as Gateway API has it: whole numbers of at most five
// digits with a unit.
func durationOf(d time.Duration) gatewayv1.Duration {
	parts := ""
	for _, unit := range []struct {
		name string
		size time.Duration
	}{{"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}} {
		if count := d / unit.size; count > 0 {
			parts += fmt.Sprintf("%d%s", count, unit.name)
			d -= count * unit.size
		}
	}
	return gatewayv1.Duration(cmp.Or(parts, "1ms"))
}

// noteOnce records a note that several paths have in common.
func (d *draft) noteOnce(field, message string) {
	ref := d.in.Resolved.Ingress
	if !slices.ContainsFunc(d.result.Notes, func(n Note) bool { return n.Ingress == ref && n.Field == field && n.Message == message }) {
		d.note(field, "%s", message)
	}
}
