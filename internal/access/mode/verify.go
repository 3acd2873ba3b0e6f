package mode

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// PathState says whether a path of a host leads where it should.
type PathState struct {
	Host string `json:"host"`
	Path string `json:"path"`
	// OK is set when it does.
	OK bool `json:"ok"`
	// By is the VirtualService that decides, when one does.
	By string `json:"by,omitempty"`
	// Message says where it leads, or what is missing.
	Message string `json:"message"`
}

// VerifyMesh looks at VirtualServices of the runtime's namespace as a gateway
// would, and says for each path of each host where it leads. Without a gateway in
// the settings any will do.
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

// finding ranks: what is wrong beats what is right, which beats what is missing.
type meshAnswer int

const (
	noHost meshAnswer = iota
	noGateway
	noRoute
	onlyWithConditions
	leadsRight
	leadsWrong
)

func (m MeshSettings) verifyPath(host string, wanted meshRoute, found []Object) PathState {
	state := PathState{Host: host, Path: wanted.prefix, Message: "no VirtualService of the namespace " + m.Namespace + " has the host"}
	best := noHost
	for _, service := range found {
		answer, message := m.ask(service, host, wanted)
		if answer <= best {
			continue
		}
		best = answer
		state.By, state.Message, state.OK = service.Name(), message, answer == leadsRight
	}
	return state
}

// ask says what a VirtualService does with a path.
func (m MeshSettings) ask(service Object, host string, wanted meshRoute) (meshAnswer, string) {
	spec, _ := service["spec"].(map[string]any)
	if !slices.ContainsFunc(textList(spec["hosts"]), func(pattern string) bool { return hostMatches(pattern, host) }) {
		return noHost, ""
	}
	gateways := textList(spec["gateways"])
	if m.Gateway != "" && !slices.ContainsFunc(gateways, func(name string) bool { return m.qualified(name) == m.qualified(m.Gateway) }) {
		if len(gateways) == 0 {
			return noGateway, "it has the host, and no gateway: nothing outside of the mesh reaches it"
		}
		return noGateway, fmt.Sprintf("it has the host, and the gateways %s, not %s", strings.Join(gateways, ", "), m.Gateway)
	}
	path := wanted.prefix
	if wanted.host == RouterService || wanted.host == oldAppProxy {
		path += "/probe" // what is below the prefix is asked for
	}
	answer, message := noRoute, "no route matches the path"
	for i, each := range mapList(spec["http"]) {
		matched, conditions := matches(each["match"], path)
		switch {
		case !matched:
			continue
		case conditions:
			answer, message = onlyWithConditions, fmt.Sprintf("http[%d] matches the path with other conditions only", i)
			continue
		}
		return m.leads(each, wanted, fmt.Sprintf("http[%d]", i))
	}
	return answer, message
}

// matches says whether one of the matches takes the path, and whether it asks for
// more than that. A route without matches takes everything.
func matches(given any, path string) (matched, conditions bool) {
	list := mapList(given)
	if len(list) == 0 {
		return true, false
	}
	for _, match := range list {
		uri, has := match["uri"].(map[string]any)
		if has && !uriMatches(uri, path, match["ignoreUriCase"] == true) {
			continue
		}
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

// leads says where a route that takes the path leads.
func (m MeshSettings) leads(route map[string]any, wanted meshRoute, where string) (meshAnswer, string) {
	for _, other := range []string{"redirect", "directResponse", "delegate"} {
		if route[other] != nil {
			return leadsWrong, fmt.Sprintf("%s answers with %s and does not reach the runtime", where, other)
		}
	}
	if rewrite, ok := route["rewrite"].(map[string]any); ok && (rewrite["uri"] != nil || rewrite["uriRegexRewrite"] != nil) {
		return leadsWrong, where + " rewrites the path, and the runtime needs it as it is"
	}
	destinations := mapList(route["route"])
	if len(destinations) == 0 {
		return leadsWrong, where + " has no destination"
	}
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

// isService reports whether a host is a Service of the runtime's namespace.
func (m MeshSettings) isService(host, service string) bool {
	full := service + "." + m.Namespace
	return host == service || host == full || host == full+".svc" || strings.HasPrefix(host, full+".svc.")
}

// qualified is a gateway with its namespace.
func (m MeshSettings) qualified(gateway string) string {
	if strings.Contains(gateway, "/") {
		return gateway
	}
	return m.Namespace + "/" + gateway
}

func hostMatches(pattern, host string) bool {
	if suffix, wildcard := strings.CutPrefix(pattern, "*"); wildcard {
		return strings.HasSuffix(host, suffix)
	}
	return strings.EqualFold(pattern, host)
}

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

func joinPort(host string, port int) string {
	if port == 0 {
		return host
	}
	return fmt.Sprintf("%s:%d", host, port)
}

func textList(given any) []string {
	list, _ := given.([]any)
	var made []string
	for _, each := range list {
		if text, ok := each.(string); ok {
			made = append(made, text)
		}
	}
	return made
}

func mapList(given any) []map[string]any {
	list, _ := given.([]any)
	var made []map[string]any
	for _, each := range list {
		if content, ok := each.(map[string]any); ok {
			made = append(made, content)
		}
	}
	return made
}
