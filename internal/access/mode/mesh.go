package mode

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/wire"
)

// Shape is the set of VirtualServices that a version of a runtime needs.
type Shape int

const (
	// OneRouter is one VirtualService to the router: Slipway, and other runtimes from
	// 0.0.543.
	OneRouter Shape = iota
	// PerService is one VirtualService for the app-proxy and one for the event
	// sources: runtimes up to 0.0.542, which have no router.
	PerService
)

// lastWithoutRouter is the patch number of the last version without a router.
const lastWithoutRouter = 542

var releaseNumber = regexp.MustCompile(`^v?(\d{1,9})\.(\d{1,9})\.(\d{1,9})([-+][0-9A-Za-z.+-]*)?$`)

// ShapeOf returns the shape of a version. Empty and "devel" mean this program.
func ShapeOf(version string) (Shape, error) {
	if version == "" || version == "devel" {
		return OneRouter, nil
	}
	// Only the numbers count; pre-releases and build metadata are accepted.
	parts := releaseNumber.FindStringSubmatch(version)
	if parts == nil {
		return OneRouter, fmt.Errorf("%q is no version: write one such as 0.0.543", version)
	}
	patch, err := strconv.Atoi(parts[3])
	if err != nil {
		return OneRouter, fmt.Errorf("%q is no version: write one such as 0.0.543", version)
	}
	if strings.Trim(parts[1], "0") == "" && strings.Trim(parts[2], "0") == "" && patch <= lastWithoutRouter {
		return PerService, nil
	}
	return OneRouter, nil
}

// MeshSettings are the inputs of VirtualServices.
type MeshSettings struct {
	Runtime   string
	Namespace string
	// Gateway is name or namespace/name.
	Gateway string
	Hosts   []string
	// Version is the version of the runtime; empty means this program's.
	Version string
	// EventSources are the event sources of a runtime without a router.
	EventSources []string
}

// Names of the VirtualServices of a runtime without a router.
const (
	// Names of the VirtualServices and Services of a runtime without a router.
	oldAppProxy     = "cap-app-proxy"
	oldAppProxyPort = 3017
	oldEventSources = "csdp-default-git-source"
	oldSourceSuffix = "-eventsource-svc"
)

// IstioGroup and IstioVersion are group and version of VirtualServices. All supported
// Istio releases serve v1alpha3.
const (
	IstioGroup   = "networking.istio.io"
	IstioVersion = "v1alpha3"
)

// meshRoute maps a path prefix to a Service.
type meshRoute struct {
	prefix string
	host   string
	port   int
}

// meshService is one VirtualService.
type meshService struct {
	name   string
	routes []meshRoute
}

// Check returns all problems of the settings. A gateway is required to render
// objects, and optional to verify existing ones.
func (m MeshSettings) Check(needsGateway bool) []finding.Finding {
	// The same collector as Resolve uses, with the keys of the command's flags.
	r := &resolution{settings: Settings{Runtime: m.Runtime}}
	if err := wire.RuntimeName(m.Runtime); err != nil {
		r.invalid(err.Error(), "choose another", "runtime")
	}
	if !dnsLabel.MatchString(m.Namespace) {
		r.invalid(strconv.Quote(m.Namespace)+" is no namespace", "write that of the runtime", "namespace")
	}
	switch {
	case m.Gateway == "" && needsGateway:
		r.missing("a mesh is entered through a Gateway", "name it as name, or namespace/name", "gateway")
	case m.Gateway != "" && !gatewayName.MatchString(m.Gateway):
		r.invalid(strconv.Quote(m.Gateway)+" is no Gateway", "write name, or namespace/name", "gateway")
	}
	if len(m.Hosts) == 0 {
		r.missing("there is no host", "name one or more", "host")
	}
	for _, host := range m.Hosts {
		// VirtualServices accept IP addresses as hosts, unlike HTTPRoutes.
		if _, err := netip.ParseAddr(host); err != nil && (len(host) > 253 || !hostName.MatchString(host)) {
			r.invalid(strconv.Quote(host)+" is no host", "write a name of DNS in lower case, without a protocol, a port and a path", "host")
		}
	}
	shape, err := ShapeOf(m.Version)
	if err != nil {
		r.invalid(err.Error(), "or leave it out", "runtime-version")
	}
	if shape == PerService && len(m.EventSources) == 0 {
		r.missing("a runtime up to 0.0.542 has a route for each event source", "name them", "event-source", "runtime-version")
	}
	if shape == OneRouter && len(m.EventSources) > 0 {
		r.unused("the router of this version knows the event sources", "leave them out", "event-source", "runtime-version")
	}
	for _, source := range m.EventSources {
		if !dnsLabel.MatchString(source) {
			r.invalid(strconv.Quote(source)+" is no name of an event source", "write lower-case letters, digits and dashes", "event-source")
		}
	}
	return r.findings
}

var (
	dnsLabel    = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	gatewayName = regexp.MustCompile(`^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/)?[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)
)

// services returns the VirtualServices for the settings, with their routes.
func (m MeshSettings) services() []meshService {
	shape, _ := ShapeOf(m.Version) // Check reports an invalid version
	if shape == OneRouter {
		router := meshService{name: RouterService}
		for _, path := range Paths() {
			router.routes = append(router.routes, meshRoute{path, RouterService, RouterPort})
		}
		return []meshService{router}
	}
	// Older runtimes route each event source to its own Service.
	hooks := meshService{name: oldEventSources}
	for _, source := range m.EventSources {
		hooks.routes = append(hooks.routes, meshRoute{wire.WebhooksPath + m.Runtime + "/" + source, source + oldSourceSuffix, RouterPort})
	}
	return []meshService{
		{name: oldAppProxy, routes: []meshRoute{{"/app-proxy", oldAppProxy, oldAppProxyPort}}},
		hooks,
	}
}

// VirtualServices renders the objects of a mesh. The settings must have passed Check.
func VirtualServices(m MeshSettings) []Object {
	var objects []Object
	for _, service := range m.services() {
		routes := []any{}
		// The order of the routes is the order of the objects: Istio uses the
		// first match.
		for _, route := range service.routes {
			routes = append(routes, map[string]any{
				"match": []any{map[string]any{"uri": map[string]any{"prefix": route.prefix}}},
				"route": []any{map[string]any{"destination": map[string]any{
					"host": route.host, "port": map[string]any{"number": route.port},
				}}},
			})
		}
		objects = append(objects, Object{
			"apiVersion": IstioGroup + "/" + IstioVersion, "kind": "VirtualService",
			"metadata": map[string]any{"name": service.name, "namespace": m.Namespace, "labels": ownLabels(m.Runtime)},
			"spec":     map[string]any{"hosts": m.Hosts, "gateways": []string{m.Gateway}, "http": routes},
		})
	}
	return objects
}
