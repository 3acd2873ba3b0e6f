package trafficreport

import "strings"

// Object is an object that routes come from, as reports name it: the kind of a custom
// resource contains its group, but for those of Gateway API.
type Object struct{ Kind, Namespace, Name string }

// Object is the object that a route comes from.
func (id RouteID) Object() Object { return Object{id.Kind, id.Namespace, id.Name} }

// ObjectsOf returns the names that reports have for an object of the cluster; none if no
// route can come from it.
func ObjectsOf(group, kind, namespace, name string) []Object {
	switch {
	case group == "networking.k8s.io" && kind == "Ingress", group == "gateway.networking.k8s.io" && strings.HasSuffix(kind, "Route"):
		return []Object{{kind, namespace, name}}
	case strings.HasPrefix(group, "traefik.") && strings.HasPrefix(kind, "IngressRoute"):
		return []Object{{kind + "." + group, namespace, name}, {kind, namespace, name}}
	}
	return nil
}
