package mode

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	// RouterService is the Service of the router. The objects that lead to it have
	// its name.
	RouterService = "internal-router"
	// RouterPort is the port of that Service.
	RouterPort = 80

	// ManagedLabel marks the objects that are ours.
	ManagedLabel = "app.kubernetes.io/managed-by"
	managedBy    = "slipway"
	// RuntimeLabel says which runtime they are for.
	RuntimeLabel = "slipway.dev/runtime"
)

// Paths are the prefixes that lead to the router, in the order of the objects.
func Paths() []string { return []string{"/webhooks", "/app-proxy", "/workflows"} }

// Object is an object of Kubernetes.
type Object map[string]any

// Kind is its kind.
func (o Object) Kind() string { kind, _ := o["kind"].(string); return kind }

// Name is its name.
func (o Object) Name() string {
	metadata, _ := o["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	return name
}

// YAML writes objects as documents of one text.
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

// Objects are those that the mode needs beside the runtime itself. A tunnel needs
// none. Those of a mesh depend on its gateway: VirtualServices makes them.
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

// IngressObject is the one Ingress of a runtime.
func IngressObject(settings Settings) Object {
	given := settings.Ingress
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
		// The API server takes no addresses as hosts. One rule without a host is for
		// requests to addresses.
		if _, err := netip.ParseAddr(host); err != nil {
			rule["host"] = host
		} else if anyHost {
			continue
		} else {
			anyHost = true
		}
		rules = append(rules, rule)
	}
	spec := map[string]any{"ingressClassName": given.ClassName, "rules": rules}
	if len(given.TLS) > 0 {
		certificates := []any{}
		for _, certificate := range given.TLS {
			each := map[string]any{}
			if len(certificate.Hosts) > 0 {
				each["hosts"] = texts(certificate.Hosts)
			}
			if certificate.SecretName != "" {
				each["secretName"] = certificate.SecretName
			}
			certificates = append(certificates, each)
		}
		spec["tls"] = certificates
	}
	return Object{
		"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
		"metadata": metadata(settings, given.Labels, given.Annotations), "spec": spec,
	}
}

// HTTPRouteObject is the one HTTPRoute of a runtime.
func HTTPRouteObject(settings Settings) Object {
	given := settings.HTTPRoute
	parents := []any{}
	for _, parent := range given.ParentRefs {
		each := map[string]any{"name": parent.Name}
		if parent.Namespace != "" {
			each["namespace"] = parent.Namespace
		}
		if parent.SectionName != "" {
			each["sectionName"] = parent.SectionName
		}
		if parent.Port != 0 {
			each["port"] = parent.Port
		}
		parents = append(parents, each)
	}
	matches := []any{}
	for _, path := range Paths() {
		matches = append(matches, map[string]any{"path": map[string]any{"type": "PathPrefix", "value": path}})
	}
	return Object{
		"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
		"metadata": metadata(settings, given.Labels, given.Annotations),
		"spec": map[string]any{
			"parentRefs": parents, "hostnames": texts(given.Hostnames),
			"rules": []any{map[string]any{
				"matches":     matches,
				"backendRefs": []any{map[string]any{"name": RouterService, "port": RouterPort}},
			}},
		},
	}
}

func ownLabels(runtime string) map[string]string {
	return map[string]string{ManagedLabel: managedBy, RuntimeLabel: runtime}
}

func metadata(settings Settings, labels, annotations map[string]string) map[string]any {
	all := maps.Clone(labels)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, ownLabels(settings.Runtime))
	made := map[string]any{"name": RouterService, "namespace": settings.Namespace, "labels": anyMap(all)}
	if len(annotations) > 0 {
		made["annotations"] = anyMap(annotations)
	}
	return made
}

func anyMap(from map[string]string) map[string]any {
	made := make(map[string]any, len(from))
	for key, value := range from {
		made[key] = value
	}
	return made
}

func texts(from []string) []any {
	made := make([]any, 0, len(from))
	for each := range slices.Values(from) {
		made = append(made, each)
	}
	return made
}
