package difference

import (
	"maps"
	"slices"
	"strings"

	"slipway.dev/slipway/internal/ingress/nginx"
)

// ofPlain are the differences of Ingresses of other controllers.
var ofPlain = []Difference{
	{
		ID: "other-annotations", Source: Plain, About: "annotations of the other controller", Before: "change how the Ingress is served",
		After: "have no effect", Advice: "use annotations of slipway.dev for what they do, and check those that restrict access first", applies: otherAnnotations,
	},
}

// controllers are the prefixes of annotations that controllers of Ingresses read.
var controllers = []string{
	nginx.Prefix, "nginx.org/", "nginx.com/", "haproxy.org/", "haproxy-ingress.github.io/", "ingress.kubernetes.io/", "alb.ingress.kubernetes.io/",
	"appgw.ingress.kubernetes.io/", "konghq.com/", "configuration.konghq.com", "projectcontour.io/", "networking.gke.io/", "ingress.gcp.kubernetes.io/",
	"ingress.citrix.com/", "voyager.appscode.com/", "getambassador.io/", "route.openshift.io/", "caddy.ingress.kubernetes.io/", "ingress.cilium.io/",
}

// otherAnnotations names the first annotation: one is enough to look at the Ingress.
func otherAnnotations(s *Subject) *Example {
	rule := s.rule()
	if rule == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(s.Annotations)) {
		if slices.ContainsFunc(controllers, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			return s.get(rule, "as "+name+" has it", "as without "+name)
		}
	}
	return nil
}
