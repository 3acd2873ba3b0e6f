package traefik

import (
	"strings"
	"time"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/annotation"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// ServiceUse is a Service, or a TraefikService, that a route sends requests to, with the
// settings of this use.
type ServiceUse struct {
	Field string
	// Group is set for a TraefikService, which has no port and no settings.
	Group bool
	// Name is name or namespace/name.
	Name string
	Port string
	// Weight is the share of the requests.
	Weight uint32
	// Settings are those that differ from the ones of the Service; nil for none.
	Settings *annotation.Service
}

// NoopService is the service of routes whose Middlewares respond, such as redirects.
const NoopService = "noop@internal"

// maxWeight bounds a weight, so that products of a few of them fit.
const maxWeight = 1 << 20

// serviceUse decodes one service of a route.
func serviceUse(r *record) ServiceUse {
	use := ServiceUse{Field: r.path, Name: r.text("name"), Port: r.textOrNumber("port"), Weight: weight(r)}
	if namespace := r.text("namespace"); namespace != "" {
		use.Name = namespace + "/" + use.Name
	}
	switch kind := r.text("kind"); kind {
	case "", "Service":
		if strings.Contains(use.Name, "@") {
			r.fault("name", refusal.Unsupported, "%q names a provider: write the name of a Service of the cluster", brief(use.Name))
		}
	case "TraefikService":
		use.Group = true
		if strings.Contains(use.Name, "@") && use.Name != NoopService {
			r.fault("name", refusal.Unsupported, "%q is a service of Traefik itself, such as its dashboard: remove the route", brief(use.Name))
		}
	default:
		r.fault("kind", refusal.Unsupported, "%q is neither Service nor TraefikService", brief(kind))
	}
	use.Settings = serviceSettings(r)
	if use.Group && use.Settings != nil {
		r.fault("kind", refusal.Unsupported, "settings belong to the Services of a TraefikService: move them there")
	}
	r.rest()
	return use
}

// weight decodes the share of the requests, 1 if it is missing.
func weight(r *record) uint32 {
	weight, set := r.wholeIfSet("weight")
	switch {
	case !set:
		return 1
	case weight < 0 || weight > maxWeight:
		r.fault("weight", refusal.Invalid, "%d is not a number from 0 to %d", weight, maxWeight)
		return 0
	}
	return uint32(weight)
}

// serviceSettings decodes the settings of a service; nil if there are none.
func serviceSettings(r *record) *annotation.Service {
	settings := annotation.Service{
		Scheme: scheme(r), Sticky: stickyCookie(r), Balancing: balancing(r), HealthCheck: healthCheck(r), PassHostHeader: flagIfSet(r, "passHostHeader"),
	}
	settings.NativeLB, settings.NodePortLB = flagIfSet(r, "nativeLB"), flagIfSet(r, "nodePortLB")
	if name := r.text("serversTransport"); name != "" {
		settings.Transport = &annotation.Name{Kind: snapshot.TraefikServersTransport, Name: name, Field: r.at("serversTransport")}
	}
	// Responses are passed on at once, and endpoints that fail get fewer requests
	// without a setting.
	r.ignore("responseForwarding", "passiveHealthCheck")
	r.refuse("middlewares", "name them in the route")
	if settings.Scheme == "" && settings.Sticky == nil && settings.Balancing == (route.Balancing{}) && settings.HealthCheck == nil &&
		settings.PassHostHeader == nil && settings.NativeLB == nil && settings.NodePortLB == nil && settings.Transport == nil {
		return nil
	}
	return &settings
}

// flagIfSet decodes a flag; nil if it is missing.
func flagIfSet(r *record, name string) *bool {
	if _, set := r.take(name); !set {
		return nil
	}
	flag := r.flag(name)
	return &flag
}

// scheme decodes the protocol of the endpoints.
func scheme(r *record) annotation.Scheme {
	switch text := r.text("scheme"); text {
	case "", "http", "https", "h2c":
		return annotation.Scheme(text)
	default:
		r.fault("scheme", refusal.Invalid, "%q is none of http, https, h2c", brief(text))
		return ""
	}
}

// balancing decodes the strategy. Without one the edge has its own.
func balancing(r *record) route.Balancing {
	switch text := r.text("strategy"); strings.ToLower(text) {
	case "":
	case "wrr", "roundrobin":
		return route.Balancing{Method: route.BalanceRoundRobin}
	case "p2c":
		return route.Balancing{Method: route.BalanceLeastRequests}
	case "leasttime":
		return route.Balancing{Method: route.BalanceLeastTime}
	case "hrw":
		return route.Balancing{Method: route.BalanceHash, Hash: route.HashKey{By: route.KeyClient}}
	default:
		r.fault("strategy", refusal.Invalid, "%q is none of wrr, p2c, hrw, leasttime", brief(text))
	}
	return route.Balancing{}
}

// healthCheck decodes the check of endpoints, nil if it is missing.
func healthCheck(r *record) *route.HealthCheck {
	if _, set := r.take("healthCheck"); !set {
		return nil
	}
	c := r.inner("healthCheck")
	check := &route.HealthCheck{
		Path: c.text("path"), Host: strings.ToLower(c.text("hostname")),
		Interval: route.Duration(c.span("interval")), Timeout: route.Duration(c.span("timeout")),
	}
	if port := c.count("port"); port > 0 && port < 1<<16 {
		check.Port = uint16(port)
	} else if port != 0 {
		c.fault("port", refusal.Invalid, "%d is no port", port)
	}
	switch mode := c.text("mode"); mode {
	case "", "http":
	case "grpc":
		check.Mode, check.Path = route.CheckGRPC, ""
	default:
		c.fault("mode", refusal.Invalid, "%q is neither http nor grpc", brief(mode))
	}
	if status := c.count("status"); status != 0 {
		check.Statuses = []route.StatusRange{{From: int(min(status, 999)), To: int(min(status, 999))}}
	}
	if method := c.text("method"); method != "" && method != "GET" {
		c.fault("method", refusal.Unsupported, "a check is a GET: remove it")
	}
	c.refuse("scheme", "a check has the scheme of the service; remove it")
	c.refuse("headers", "a check has no headers of its own; remove them")
	// An unhealthy endpoint is checked as often as a healthy one, and a redirect is a
	// healthy response.
	c.ignore("unhealthyInterval", "followRedirects")
	c.rest()
	probe := route.Backend{ID: route.BackendID{Name: "service"}, Transport: route.Transport{Protocol: route.ProtocolALPN}, HealthCheck: check}
	for _, problem := range probe.Validate() {
		c.fault(strings.TrimPrefix(problem.Field, "healthCheck."), refusal.Invalid, "%s", problem.Message)
	}
	return check
}

// seconds decodes a number of seconds.
func seconds(r *record, name string) route.Duration {
	return route.Duration(time.Duration(min(r.count(name), 1<<31)) * time.Second)
}
