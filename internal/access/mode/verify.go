package mode

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// PathState is the result of verifying one path of one host.
type PathState struct {
	Host string `json:"host"`
	Path string `json:"path"`
	// OK is set when the path is routed to the expected Service.
	OK bool `json:"ok"`
	// By is the VirtualService that matched, if any.
	By string `json:"by,omitempty"`
	// Message describes the destination or the problem.
	Message string `json:"message"`
}

// VerifyMesh evaluates existing VirtualServices as Istio's gateway would and returns
// the destination of each path of each host. Without a gateway in the settings any
// gateway is accepted. The match is an approximation: conditions on headers or ports
// are reported, not evaluated.
func VerifyMesh(m MeshSettings, found []Object) []PathState {
	var states []PathState
	for _, host := range m.Hosts {
		for _, service := range m.services() {
			for _, wanted := range service.routes {
				states = append(states, m.verifyPath(host, wanted, found))
			}
		}
	}
	return states
}

// meshMatch ranks the results of VirtualServices; the highest one is reported. A
// wrong destination outranks a right one, because Istio may use either.
type meshMatch int

const (
	noHost meshMatch = iota
	noGateway
	noRoute
	onlyWithConditions
	leadsRight
	leadsWrong
)

// verifyPath returns the highest-ranked result of all VirtualServices for one path.
func (m MeshSettings) verifyPath(host string, wanted meshRoute, found []Object) PathState {
	state := PathState{Host: host, Path: wanted.prefix, Message: "no VirtualService of the namespace " + m.Namespace + " has the host"}
	// VirtualServices are evaluated independently, because the order in which
	// Istio merges them is not defined.
	best := noHost
	for _, service := range found {
		rank, message := m.match(service, host, wanted)
		if rank <= best {
			continue
		}
		best = rank
		state.By, state.Message, state.OK = service.Name(), message, rank == leadsRight
	}
	return state
}

// match evaluates one VirtualService for one path.
func (m MeshSettings) match(service Object, host string, wanted meshRoute) (meshMatch, string) {
	spec, _ := service["spec"].(map[string]any)
	if !slices.ContainsFunc(listOf[string](spec["hosts"]), func(pattern string) bool { return hostMatches(pattern, host) }) {
		return noHost, ""
	}
	// Without gateways a VirtualService applies inside of the mesh only.
	gateways := listOf[string](spec["gateways"])
	if m.Gateway != "" && !slices.ContainsFunc(gateways, func(name string) bool { return m.qualified(name) == m.qualified(m.Gateway) }) {
		if len(gateways) == 0 {
			return noGateway, "it has the host, and no gateway: nothing outside of the mesh reaches it"
		}
		return noGateway, fmt.Sprintf("it has the host, and the gateways %s, not %s", strings.Join(gateways, ", "), m.Gateway)
	}
	path := wanted.prefix
	if wanted.host == RouterService || wanted.host == oldAppProxy {
		path += "/probe" // a path below the prefix, as requests have
	}
	rank, message := noRoute, "no route matches the path"
	// Istio uses the first route that matches.
	for i, each := range listOf[map[string]any](spec["http"]) {
		matched, conditions := matches(each["match"], path)
		switch {
		case !matched:
			continue
		case conditions:
			rank, message = onlyWithConditions, fmt.Sprintf("http[%d] matches the path with other conditions only", i)
			continue
		}
		return m.destination(each, wanted, fmt.Sprintf("http[%d]", i))
	}
	return rank, message
}

// matches reports whether one of the match blocks accepts the path, and whether it
// has further conditions. A route without match blocks accepts every path.
func matches(given any, path string) (matched, conditions bool) {
	list := listOf[map[string]any](given)
	if len(list) == 0 {
		return true, false
	}
	for _, match := range list {
		uri, has := match["uri"].(map[string]any)
		if has && !uriMatches(uri, path, match["ignoreUriCase"] == true) {
			continue
		}
		// Every other key is a condition, also keys that this program does not
		// interpret.
		more := len(match)
		for _, free := range []string{"uri", "name", "ignoreUriCase"} {
			if _, there := match[free]; there {
				more--
			}
		}
		if more == 0 {
			return true, false
		}
		matched, conditions = true, true
	}
	return matched, conditions
}

// uriMatches evaluates a StringMatch of Istio. Patterns are anchored, as RE2 in Envoy
// is, and bounded in length.
func uriMatches(uri map[string]any, path string, fold bool) bool {
	if exact, ok := uri["exact"].(string); ok {
		return exact == path || (fold && strings.EqualFold(exact, path))
	}
	if prefix, ok := uri["prefix"].(string); ok {
		return strings.HasPrefix(path, prefix) || (fold && strings.HasPrefix(strings.ToLower(path), strings.ToLower(prefix)))
	}
	if pattern, ok := uri["regex"].(string); ok && len(pattern) <= 1024 {
		compiled, err := regexp.Compile("^(?:" + pattern + ")$")
		return err == nil && compiled.MatchString(path)
	}
	return false
}

// destination checks where a matching route leads. Redirects, direct responses and
// path rewrites never reach the runtime with the path it expects.
func (m MeshSettings) destination(route map[string]any, wanted meshRoute, where string) (meshMatch, string) {
	for _, other := range []string{"redirect", "directResponse", "delegate"} {
		if route[other] != nil {
			return leadsWrong, fmt.Sprintf("%s responds with %s and does not reach the runtime", where, other)
		}
	}
	if rewrite, ok := route["rewrite"].(map[string]any); ok && (rewrite["uri"] != nil || rewrite["uriRegexRewrite"] != nil) {
		return leadsWrong, where + " rewrites the path, and the runtime needs it as it is"
	}
	destinations := listOf[map[string]any](route["route"])
	if len(destinations) == 0 {
		return leadsWrong, where + " has no destination"
	}
	// All weighted destinations must be the expected Service: otherwise some
	// requests go elsewhere.
	for _, each := range destinations {
		destination, _ := each["destination"].(map[string]any)
		host, _ := destination["host"].(string)
		port := portOf(destination)
		if !m.isService(host, wanted.host) || (port != 0 && port != wanted.port) {
			return leadsWrong, fmt.Sprintf("%s leads to %s and not to %s:%d", where, joinPort(host, port), wanted.host, wanted.port)
		}
	}
	return leadsRight, fmt.Sprintf("%s leads to %s:%d", where, wanted.host, wanted.port)
}

// isService reports whether a host is the Service in the runtime's namespace, as a
// short or a qualified name.
func (m MeshSettings) isService(host, service string) bool {
	full := service + "." + m.Namespace
	return host == service || host == full || host == full+".svc" || strings.HasPrefix(host, full+".svc.")
}

// qualified returns a gateway as namespace/name.
func (m MeshSettings) qualified(gateway string) string {
	if strings.Contains(gateway, "/") {
		return gateway
	}
	return m.Namespace + "/" + gateway
}

// hostMatches matches a host of a VirtualService, which may start with a wildcard.
func hostMatches(pattern, host string) bool {
	if suffix, wildcard := strings.CutPrefix(pattern, "*"); wildcard {
		return strings.HasSuffix(host, suffix)
	}
	return strings.EqualFold(pattern, host)
}

// portOf returns the port of a destination, or 0. The type of the number depends on
// the decoder: YAML, JSON or unstructured.
func portOf(destination map[string]any) int {
	port, _ := destination["port"].(map[string]any)
	switch number := port["number"].(type) {
	case int64:
		return int(number)
	case float64:
		return int(number)
	case int:
		return number
	}
	return 0
}

// joinPort formats a host with an optional port.
func joinPort(host string, port int) string {
	if port == 0 {
		return host
	}
	return fmt.Sprintf("%s:%d", host, port)
}

// listOf returns the elements of a decoded list that have the type.
func listOf[T any](given any) []T {
	list, _ := given.([]any)
	var made []T
	for _, each := range list {
		if one, ok := each.(T); ok {
			made = append(made, one)
		}
	}
	return made
}
