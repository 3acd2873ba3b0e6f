package mode

import (
	"slices"
	"strings"

	"slipway.dev/slipway/api/finding"
)

// flagNames replaces the keys of values by the flags that set them.
var flagNames = strings.NewReplacer(
	KeyIngressHosts, "--host", KeyHTTPRouteHostnames, "--host", KeyIngressClassName, "--ingress-class", KeyHTTPRouteParents, "--gateway",
	KeyIngressURL, "--ingress-url", KeyIngressProtocol, "--protocol", KeyHTTPRouteProtocol, "--protocol", KeyIngressTLS, "--tls-secret",
	KeyIngressEnabled, "--mode", KeyHTTPRouteEnabled, "--mode", KeyTunnelEnabled, "--mode",
)

// ByFlags returns a finding of Resolve for a user who has given flags and no
// values: its texts name the flags.
func ByFlags(found finding.Finding) finding.Finding {
	var names []string
	for _, key := range strings.Split(flagNames.Replace(found.Subject), ", ") {
		// Several values may be set by one flag.
		if !slices.Contains(names, key) {
			names = append(names, key)
		}
	}
	found.Subject, found.Message, found.Fix = strings.Join(names, ", "), flagNames.Replace(found.Message), flagNames.Replace(found.Fix)
	return found
}
