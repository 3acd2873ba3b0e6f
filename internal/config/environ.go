package config

import (
	"regexp"
	"slices"
	"strings"
)

// readEnvironment returns the settings of the environment variables with our
// prefix. Unknown variables are settings too, so that resolve reports typos.
func readEnvironment(environ []string, known schema) []setting {
	var settings []setting
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		rest, ours := strings.CutPrefix(strings.ToUpper(name), environmentPrefix)
		if !ours {
			continue
		}
		// An underscore separates path elements; no option has one in its name.
		path := strings.Split(strings.ToLower(rest), "_")
		// A variable of Kubernetes is ignored only if no option has its name.
		if _, ok := known.find(path); !ok && (isServiceLink(name, value) || isClientVariable(name)) {
			continue
		}
		settings = append(settings, setting{
			spelling: name,
			path:     path,
			values:   []string{value},
			origin:   origin{source: fromEnvironment},
		})
	}
	// The order of an environment has no meaning; messages must not depend on
	// it.
	slices.SortFunc(settings, func(a, b setting) int { return strings.Compare(a.spelling, b.spelling) })
	return settings
}

// serviceLink matches a variable of a Service.
type serviceLink struct{ name, value *regexp.Regexp }

// serviceLinks are the variables that Kubernetes sets in every container for
// each Service of the namespace: the suffix of the name, and the form of the
// value.
var serviceLinks = []serviceLink{
	{linkName(`SERVICE_HOST`), linkAddress},
	{linkName(`SERVICE_PORT(_[A-Z0-9_]+)?`), linkNumber},
	{linkName(`PORT(_[0-9]+_(TCP|UDP|SCTP))?`), linkURL},
	{linkName(`PORT_[0-9]+_(TCP|UDP|SCTP)_PROTO`), linkProto},
	{linkName(`PORT_[0-9]+_(TCP|UDP|SCTP)_PORT`), linkNumber},
	{linkName(`PORT_[0-9]+_(TCP|UDP|SCTP)_ADDR`), linkAddress},
}

// The forms of the values that the kubelet sets.
var (
	linkAddress = regexp.MustCompile(`^([0-9.]+|[0-9a-f:.]*:[0-9a-f:.]*)$`)
	linkNumber  = regexp.MustCompile(`^[0-9]+$`)
	linkProto   = regexp.MustCompile(`^(tcp|udp|sctp)$`)
	linkURL     = regexp.MustCompile(`^(tcp|udp|sctp)://.+:[0-9]+$`)
)

// linkName matches a variable of a Service whose name starts with slipway.
func linkName(ending string) *regexp.Regexp {
	return regexp.MustCompile(`^SLIPWAY(_[A-Z0-9_]+)?_` + ending + `$`)
}

// isServiceLink reports whether Kubernetes, not a user, has set a variable: for
// a Service named slipway or slipway-edge there are SLIPWAY_PORT and
// SLIPWAY_EDGE_SERVICE_HOST. The value must have the form as well, so that a
// user's SLIPWAY_ADMIN_PORT=9000 is still reported.
func isServiceLink(name, value string) bool {
	return slices.ContainsFunc(serviceLinks, func(link serviceLink) bool {
		return link.name.MatchString(name) && link.value.MatchString(value)
	})
}

// isClientVariable reports whether a variable is for client commands such as
// slipway app. A server that is started from the same shell ignores it.
func isClientVariable(name string) bool {
	return slices.Contains([]string{"SLIPWAY_API_KEY", "SLIPWAY_CONFIG", "SLIPWAY_RUNTIME", "SLIPWAY_URL"}, name)
}
