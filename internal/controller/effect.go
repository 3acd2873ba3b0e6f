package controller

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"slipway.dev/slipway/internal/edge/admin"
	"slipway.dev/slipway/internal/route"
)

// effect is what becomes of a request: the same text for an Ingress, whose policies
// change it one after the other, and for a route, which has one rewrite.
type effect struct {
	request *admin.ReadRequest
	host    string
	path    string
	// response is that of the edge itself; empty for a request that is forwarded.
	response string
	// changes are other policies, as they are in a routes file, sorted.
	changes []string
}

// unlisted are the policies that Gateway API has not and whose loss is a note.
var unlisted = []string{"compression", "circuitBreaker", "errorPages", "retry"}

// effectOf describes what becomes of a request that a rule serves.
func effectOf(rule *route.Rule, backends map[route.BackendID]*route.Backend, request *admin.ReadRequest) string {
	e := &effect{request: request, host: request.Host, path: request.Path}
	e.apply(rule.Policies)
	if e.response == "" && rule.Rewrite != nil {
		e.host = cmp.Or(rule.Rewrite.Host, e.host)
		e.path = replaced(e.path, rule.Rewrite.Path, rule.Rewrite.ReplacePrefix)
	}
	if e.response == "" && rule.Response != nil {
		e.respond(rule.Response)
	}
	if e.response != "" {
		return e.response
	}
	var shares []string
	for _, ref := range rule.Backends {
		shares = append(shares, shareText(&ref, backends[ref.Backend], len(rule.Backends)))
	}
	slices.Sort(shares)
	text := fmt.Sprintf("%s gets %s%s", strings.Join(shares, ", "), e.host, e.path)
	if rule.Timeouts.Total != 0 {
		text += fmt.Sprintf(", within %s", time.Duration(rule.Timeouts.Total))
	}
	slices.Sort(e.changes)
	if len(e.changes) > 0 {
		text += ", " + strings.Join(e.changes, ", ")
	}
	return text
}

// shareText describes a backend of a rule.
func shareText(ref *route.BackendRef, backend *route.Backend, shares int) string {
	if ref.Status != 0 || backend == nil {
		return "no Service"
	}
	text := fmt.Sprintf("Service %s/%s:%d", ref.Backend.Namespace, ref.Backend.Name, ref.Backend.Port)
	if shares > 1 {
		text += fmt.Sprintf(" (%d)", ref.Weight)
	}
	if backend.Transport.Protocol != "" {
		text += " by " + string(backend.Transport.Protocol)
	}
	return text
}

// apply applies policies until one responds itself.
func (e *effect) apply(policies []route.Policy) {
	for i := range policies {
		policy := &policies[i]
		name, action := policy.Named()
		switch {
		case e.response != "" || slices.Contains(unlisted, name):
		case policy.Chain != nil:
			e.apply(policy.Chain.Policies)
		case policy.RedirectScheme != nil:
			if to := policy.RedirectScheme; (to.Scheme == route.SchemeHTTPS) != e.request.TLS {
				e.redirect(cmp.Or(to.Status, 307), &route.Redirect{Scheme: to.Scheme, Port: to.Port})
			}
		case policy.AddPrefix != nil:
			e.path = strings.TrimSuffix(policy.AddPrefix.Prefix, "/") + e.path
		case policy.StripPrefix != nil:
			e.strip(policy.StripPrefix)
		case policy.ReplacePath != nil:
			e.path = policy.ReplacePath.Path
		case policy.RequestHeaders != nil:
			e.headers("request", *policy.RequestHeaders)
		case policy.ResponseHeaders != nil:
			e.headers("response", route.RequestHeaders(*policy.ResponseHeaders))
		case policy.Mirror != nil:
			mirror := policy.Mirror
			e.changes = append(e.changes, fmt.Sprintf("mirror %s/%s:%d %d of %d", mirror.Backend.Namespace, mirror.Backend.Name, mirror.Backend.Port, mirror.Percent, cmp.Or(mirror.Of, 100)))
		case policy.CORS != nil:
			cors := *policy.CORS
			// A filter without an age has that of browsers.
			cors.MaxAge = cmp.Or(cors.MaxAge, route.Duration(5*time.Second))
			e.change(name, cors)
		default:
			e.change(name, action)
		}
	}
}

// change adds a policy as it is in a routes file.
func (e *effect) change(name string, action any) {
	text, err := json.Marshal(action)
	if err != nil {
		text = []byte(err.Error())
	}
	e.changes = append(e.changes, name+" "+string(text))
}

// headers adds changes of headers, one by one.
func (e *effect) headers(of string, changes route.RequestHeaders) {
	for _, name := range changes.Remove {
		e.changes = append(e.changes, of+" without "+strings.ToLower(name))
	}
	for _, header := range changes.Set {
		e.changes = append(e.changes, fmt.Sprintf("%s with %s: %s", of, strings.ToLower(header.Name), header.Value))
	}
	for _, header := range changes.Add {
		e.changes = append(e.changes, fmt.Sprintf("%s and %s: %s", of, strings.ToLower(header.Name), header.Value))
	}
}

// strip removes the first prefix that fits.
func (e *effect) strip(policy *route.StripPrefix) {
	for _, written := range policy.Prefixes {
		prefix := strings.TrimSuffix(written, "/")
		rest, fits := strings.CutPrefix(e.path, prefix)
		if !fits || rest != "" && rest[0] != '/' {
			continue
		}
		e.path = cmp.Or(rest, "/")
		if policy.ForwardPrefix && prefix != "" {
			e.headers("request", route.RequestHeaders{Add: []route.HeaderValue{{Name: "X-Forwarded-Prefix", Value: prefix}}})
		}
		return
	}
}

// respond sets the response of a rule without a backend.
func (e *effect) respond(response *route.Response) {
	switch {
	case response.Redirect != nil:
		e.redirect(response.Status, response.Redirect)
	case response.Reason == route.ReasonNoService || response.Reason == route.ReasonNoEndpoint:
		e.response = "no Service"
	default:
		e.response = fmt.Sprintf("%d", response.Status)
	}
}

// redirect sets the response to a redirect.
func (e *effect) redirect(status int, to *route.Redirect) {
	scheme := cmp.Or(to.Scheme, route.SchemeHTTP)
	if to.Scheme == "" && e.request.TLS {
		scheme = route.SchemeHTTPS
	}
	port, implied := "", uint16(80)
	if scheme == route.SchemeHTTPS {
		implied = 443
	}
	if to.Port != 0 && to.Port != implied {
		port = fmt.Sprintf(":%d", to.Port)
	}
	e.response = fmt.Sprintf("%d to %s://%s%s%s", status, scheme, cmp.Or(to.Host, e.request.Host), port, replaced(e.request.Path, to.Path, to.ReplacePrefix))
}

// replaced returns a path with all of it replaced, or its prefix.
func replaced(path, by, prefix string) string {
	if prefix == "" {
		return cmp.Or(by, path)
	}
	rest, fits := strings.CutPrefix(path, strings.TrimSuffix(prefix, "/"))
	switch {
	case !fits || rest != "" && rest[0] != '/':
		return path
	case rest == "":
		return cmp.Or(by, "/")
	default:
		return strings.TrimSuffix(by, "/") + rest
	}
}
