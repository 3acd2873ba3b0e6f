package mode

import (
	"fmt"
	"maps"
	"net/netip"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	// RouterService is the name of the router's Service and of the objects that route
	// to it.
	RouterService = "internal-router"
	// RouterPort is the port of that Service.
	RouterPort = 80

	// ManagedLabel marks objects that Slipway manages.
	ManagedLabel = "app.kubernetes.io/managed-by"
	managedBy    = "slipway"
	// RuntimeLabel names the runtime of an object.
	RuntimeLabel = "slipway.dev/runtime"
)

// Paths returns the prefixes that are routed to the router, in the order of the
// objects.
func Paths() []string { return []string{"/webhooks", "/app-proxy", "/workflows"} }

// Object is a Kubernetes object as unstructured content.
type Object map[string]any

// Kind returns the kind of the object.
func (o Object) Kind() string { kind, _ := o["kind"].(string); return kind }

// Name returns metadata.name of the object.
func (o Object) Name() string {
	metadata, _ := o["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	return name
}

// YAML renders objects as a multi-document YAML text.
func YAML(objects ...Object) (string, error) {
	var text strings.Builder
	for i, object := range objects {
		document, err := yaml.Marshal(map[string]any(object))
		if err != nil {
			return "", fmt.Errorf("write %s %s as YAML: %w", object.Kind(), object.Name(), err)
		}
		if i > 0 {
			text.WriteString("---\n")
		}
		text.Write(document)
	}
	return text.String(), nil
}

// Objects returns the objects that a mode needs besides the runtime itself. A tunnel
// needs none. Those of a mesh depend on its gateway: see VirtualServices.
func Objects(settings Settings, chosen Mode) []Object {
	switch chosen {
	case Ingress:
		return []Object{IngressObject(settings)}
	case HTTPRoute:
		return []Object{HTTPRouteObject(settings)}
	case Unresolved, Tunnel, Mesh:
	}
	return nil
}

// IngressObject renders the Ingress of a runtime.
func IngressObject(settings Settings) Object {
	given := settings.Ingress
	// Prefix matching by path elements, as the Ingress specification defines
	// it.
	paths := []any{}
	for _, path := range Paths() {
		paths = append(paths, map[string]any{
			"path": path, "pathType": "Prefix",
			"backend": map[string]any{"service": map[string]any{
				"name": RouterService, "port": map[string]any{"number": RouterPort},
			}},
		})
	}
	rules, anyHost := []any{}, false
	for _, host := range given.Hosts {
		rule := map[string]any{"http": map[string]any{"paths": paths}}
		// The API server rejects IP addresses as Ingress hosts. A single rule without
		// a host matches requests to addresses.
		if _, err := netip.ParseAddr(host); err != nil {
			rule["host"] = host
		} else if anyHost {
			continue
		} else {
			anyHost = true
		}
		rules = append(rules, rule)
	}
	// Unstructured content keeps this package free of Kubernetes types.
	spec := map[string]any{"ingressClassName": given.ClassName, "rules": rules}
	if len(given.TLS) > 0 {
		spec["tls"] = given.TLS
	}
	return Object{
		"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
		"metadata": metadata(settings, given.Labels, ingressAnnotations(given)), "spec": spec,
	}
}

// ingressAnnotations returns the given annotations, and for the class of AWS ALB
// those without which its load balancer does not serve the runtime: by default
// it is internal and sends to node ports, which the router's ClusterIP Service
// does not have.
func ingressAnnotations(given IngressSettings) map[string]string {
	if given.ClassName != "alb" {
		return given.Annotations
	}
	ports := `[{"HTTPS": 443}]`
	if given.Protocol == protocolHTTP {
		ports = `[{"HTTP": 80}]`
	}
	made := map[string]string{
		"alb.ingress.kubernetes.io/scheme": "internet-facing", "alb.ingress.kubernetes.io/target-type": "ip",
		// The router refuses requests without a token, which is healthy.
		"alb.ingress.kubernetes.io/success-codes": "200-499", "alb.ingress.kubernetes.io/listen-ports": ports,
	}
	maps.Copy(made, given.Annotations)
	return made
}

// HTTPRouteObject renders the HTTPRoute of a runtime.
func HTTPRouteObject(settings Settings) Object {
	given := settings.HTTPRoute
	// One rule with several matches shares its backend.
	matches := []any{}
	for _, path := range Paths() {
		matches = append(matches, map[string]any{"path": map[string]any{"type": "PathPrefix", "value": path}})
	}
	return Object{
		"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
		"metadata": metadata(settings, given.Labels, given.Annotations),
		"spec": map[string]any{
			"parentRefs": given.ParentRefs, "hostnames": given.Hostnames,
			"rules": []any{map[string]any{
				"matches":     matches,
				"backendRefs": []any{map[string]any{"name": RouterService, "port": RouterPort}},
			}},
		},
	}
}

// ownLabels returns the labels that Slipway sets itself. They override configured
// ones; checkLabels reports a conflict before.
func ownLabels(runtime string) map[string]string {
	return map[string]string{ManagedLabel: managedBy, RuntimeLabel: runtime}
}

// metadata renders the metadata of an object in the runtime's namespace.
func metadata(settings Settings, labels, annotations map[string]string) map[string]any {
	all := maps.Clone(labels)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, ownLabels(settings.Runtime))
	made := map[string]any{"name": RouterService, "namespace": settings.Namespace, "labels": all}
	if len(annotations) > 0 {
		made["annotations"] = annotations
	}
	return made
}
