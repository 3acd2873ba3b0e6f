package snapshot

import (
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// The groups of Traefik's kinds. The older one is that of its version 1 and 2.
const (
	traefikGroup    = ".traefik.io"
	oldTraefikGroup = ".traefik.containo.us"
)

// The kinds of Traefik, besides those that an Ingress or a Service can name.
const (
	IngressRoute         Kind = "IngressRoute" + traefikGroup
	IngressRouteTCP      Kind = "IngressRouteTCP" + traefikGroup
	IngressRouteUDP      Kind = "IngressRouteUDP" + traefikGroup
	TraefikService       Kind = "TraefikService" + traefikGroup
	TraefikMiddlewareTCP Kind = "MiddlewareTCP" + traefikGroup

	TraefikServersTransportTCP Kind = "ServersTransportTCP" + traefikGroup
	TraefikTLSStore            Kind = "TLSStore" + traefikGroup
)

// TraefikKinds returns the kinds of Traefik that are read, of both groups.
func TraefikKinds() []Kind {
	kinds := []Kind{
		IngressRoute, IngressRouteTCP, IngressRouteUDP,
		TraefikService, TraefikMiddleware, TraefikMiddlewareTCP, TraefikTLSOption, TraefikServersTransport, TraefikServersTransportTCP, TraefikTLSStore,
	}
	for _, kind := range slices.Clone(kinds) {
		kinds = append(kinds, kind.inOldGroup())
	}
	return kinds
}

// TraefikRoutes returns the kinds of Traefik that are routes, of both groups.
func TraefikRoutes() []Kind {
	return []Kind{
		IngressRoute, IngressRouteTCP, IngressRouteUDP,
		IngressRoute.inOldGroup(), IngressRouteTCP.inOldGroup(), IngressRouteUDP.inOldGroup(),
	}
}

// IsTraefikRoute reports whether a kind is one of TraefikRoutes.
func IsTraefikRoute(kind Kind) bool {
	return strings.HasPrefix(string(kind), "IngressRoute") && slices.Contains(TraefikRoutes(), kind)
}

// TraefikUnits returns the kinds of Traefik that have a place in the table by themselves, of
// both groups: its routes, and the TLSStore.
func TraefikUnits() []Kind {
	return append(TraefikRoutes(), TraefikTLSStore, TraefikTLSStore.inOldGroup())
}

// IsTraefikUnit reports whether a kind is one of TraefikUnits.
func IsTraefikUnit(kind Kind) bool {
	return IsTraefikRoute(kind) || kind == TraefikTLSStore || kind == TraefikTLSStore.inOldGroup()
}

// IsTraefikStream reports whether a kind is a route of connections.
func IsTraefikStream(kind Kind) bool {
	return IsTraefikRoute(kind) && (strings.HasPrefix(string(kind), "IngressRouteTCP") || strings.HasPrefix(string(kind), "IngressRouteUDP"))
}

// OldTraefikKind returns the kind in the older group of Traefik, and whether there is one.
func OldTraefikKind(kind Kind) (Kind, bool) {
	if !strings.HasSuffix(string(kind), traefikGroup) {
		return "", false
	}
	return kind.inOldGroup(), true
}

// CurrentTraefikKind returns the kind in the current group of Traefik, and whether it is
// another one.
func CurrentTraefikKind(kind Kind) (Kind, bool) {
	name, old := strings.CutSuffix(string(kind), oldTraefikGroup)
	return Kind(name + traefikGroup), old
}

// IsTraefik reports whether a kind is one of Traefik's.
func IsTraefik(kind Kind) bool {
	return strings.HasSuffix(string(kind), traefikGroup) || strings.HasSuffix(string(kind), oldTraefikGroup)
}

func (k Kind) inOldGroup() Kind {
	return Kind(strings.TrimSuffix(string(k), traefikGroup) + oldTraefikGroup)
}

// traefikResource returns the name of the resource of a kind of Traefik.
func traefikResource(kind Kind) string {
	name, _, _ := strings.Cut(strings.ToLower(string(kind)), ".")
	return name + "s"
}

// TraefikResource returns group and name of the resource of a kind of Traefik, and whether
// it is one that is read.
func TraefikResource(kind Kind) (group, resource string, known bool) {
	if !slices.Contains(TraefikKinds(), kind) {
		return "", "", false
	}
	_, group, _ = strings.Cut(string(kind), ".")
	return group, traefikResource(kind), true
}

// RuleKind returns the kind of an object in the identities of its rules. Of a group with
// a successor it has the group too, because both can have an object of one name.
func RuleKind(kind Kind) string {
	if strings.HasSuffix(string(kind), oldTraefikGroup) {
		return string(kind)
	}
	name, _, _ := strings.Cut(string(kind), ".")
	return name
}

// KindOfRule returns the kind of the object of a rule. It reverses RuleKind.
func KindOfRule(kind string) Kind {
	switch whole := Kind(kind); {
	case whole == Ingress || strings.Contains(kind, "."):
		return whole
	case IsTraefikRoute(whole + traefikGroup):
		return whole + traefikGroup
	default:
		return whole + "." + gatewayv1.GroupName
	}
}
