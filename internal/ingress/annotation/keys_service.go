package annotation

import (
	"strings"

	"slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// serviceKeys returns our own annotations of a Service.
func serviceKeys() []*key {
	return append([]*key{
		{
			name: ownPrefix + "scheme", closes: true,
			meaning: "Protocol to the endpoints: `h2` and `alpn` use TLS, and with `alpn` the endpoint chooses between HTTP/2 and HTTP/1.1.",
			form:    "`http`, `https`, `h2c`, `h2` or `alpn`", otherwise: "appProtocol of the port, or https for port 443 and names that start with https, or http", example: "h2c",
			read: setting(func(r *reading) *Scheme { return &r.service.Scheme }, oneOf(SchemeHTTP, SchemeHTTPS, SchemeH2C, SchemeH2, SchemeALPN)),
		},
		{
			name: ownPrefix + "transport", closes: true,
			meaning: "BackendTransport of group slipway.dev: certificates and timeouts.",
			form:    "`name` or `namespace/name`", otherwise: "none", example: "internal",
			read: oneName(func(r *reading) **Name { return &r.service.Transport }, snapshot.BackendTransport),
		},
		{
			name: ownPrefix + "pass-host-header", closes: true,
			meaning: "Whether endpoints get the Host header of the client, or their own address.",
			form:    "`true` or `false`", otherwise: "true", example: "false",
			read: setting(func(r *reading) **bool { return &r.service.PassHostHeader }, parseBool),
		},
		{
			name: ownPrefix + "sticky-cookie", closes: true,
			meaning: "Sends all requests of a client to the endpoint of its first request (sticky sessions).",
			form:    "YAML, or short: " + (*v1alpha1.StickyCookie)(nil).ShortForm(), otherwise: "off", example: "{name: endpoint, secure: true, httpOnly: true, sameSite: lax}",
			read: readSticky,
		},
		{
			name: ownPrefix + "native-lb", closes: true,
			meaning: "Sends requests to the address of the Service, so that the cluster chooses the endpoint.",
			form:    "`true` or `false`", otherwise: "the option nativeLBByDefault", example: "true",
			read: setting(func(r *reading) **bool { return &r.service.NativeLB }, parseBool),
		},
		{
			name: ownPrefix + "node-port-lb", closes: true,
			meaning: "Sends requests to the node port of the Service on every node.",
			form:    "`true` or `false`", otherwise: "false", example: "true",
			read: setting(func(r *reading) **bool { return &r.service.NodePortLB }, parseBool),
		},
	}, balancingKeys()...)
}

// balancingKeys returns the annotations about load balancing. Without them
// requests are still served, only less evenly, so a fault closes nothing.
func balancingKeys() []*key {
	return []*key{
		{
			name:    ownPrefix + "balance",
			meaning: "Load balancing: the less loaded or the faster of two random endpoints, round robin, or the same endpoint for the same key.",
			form:    "`leastRequests`, `leastTime`, `roundRobin` or `hash`", otherwise: "leastRequests", example: "roundRobin",
			read: setting(func(r *reading) *route.BalanceMethod { return &r.service.Balancing.Method },
				oneOf(route.BalanceLeastRequests, route.BalanceLeastTime, route.BalanceRoundRobin, route.BalanceHash)),
		},
		{
			name:    ownPrefix + "balance-hash",
			meaning: "Attribute that requests are hashed by, for `hash` of " + ownPrefix + "balance.",
			form:    "YAML, or short: " + (*v1alpha1.RequestKey)(nil).ShortForm(), otherwise: "none", example: "header:X-User",
			read: func(r *reading, at place, text string) {
				hash := &v1alpha1.RequestKey{}
				if problems := decode(strings.TrimSpace(text), "", hash); len(problems) > 0 {
					r.problems(at, problems)
					return
				}
				give(r, at, &r.hash, hash)
			},
		},
		{
			name:    ownPrefix + "health-check",
			meaning: "Periodically checks the health of every endpoint. An unhealthy endpoint gets no requests.",
			form:    "YAML, or short: the value of `path`", otherwise: "off", example: "{path: /healthz, interval: 5s}",
			read: readHealthCheck,
		},
		{
			name:    ownPrefix + "max-in-flight",
			meaning: "Maximum number of concurrent requests on all endpoints together, for each replica of the edge. The response to further requests is 503.",
			form:    "whole number", otherwise: "no bound", example: "1000",
			read: setting(func(r *reading) *int64 { return &r.service.MaxInFlight }, parseCount),
		},
		{
			name:    ownPrefix + "max-in-flight-per-endpoint",
			meaning: "Maximum number of concurrent requests on one endpoint.",
			form:    "whole number", otherwise: "the default of the edge", example: "100",
			read: setting(func(r *reading) *int64 { return &r.service.MaxInFlightPerEndpoint }, parseCount),
		},
		{
			name:    ownPrefix + "slow-start",
			meaning: "Time in which a new endpoint ramps up to its full share of requests (slow start).",
			form:    "time such as `30s`", otherwise: "at once", example: "30s",
			read: setting(func(r *reading) *route.Duration { return &r.service.Balancing.SlowStart }, parseDuration),
		},
		{
			name:    ownPrefix + "prefer-zone",
			meaning: "Keeps requests in the zone of the edge while it has enough endpoints.",
			form:    "`true` or `false`", otherwise: "false", example: "true",
			read: setting(func(r *reading) *bool { return &r.service.Balancing.PreferZone }, parsePlainBool),
		},
	}
}

// readSticky parses a sticky cookie. The value false disables it explicitly:
// beside Traefik's annotations that enable it, this is a conflict.
func readSticky(r *reading, at place, text string) {
	text = strings.TrimSpace(text)
	if text == "false" {
		give(r, at, &r.service.Sticky, nil)
		return
	}
	var cookie v1alpha1.StickyCookie
	if problems := decode(text, "", &cookie); len(problems) > 0 {
		r.problems(at, problems)
		return
	}
	give(r, at, &r.service.Sticky, &route.StickyCookie{
		Name: cookie.Name, Path: cookie.Path, Domain: cookie.Domain, Secure: cookie.Secure, HTTPOnly: cookie.HTTPOnly,
		SameSite: route.SameSite(cookie.SameSite), MaxAge: route.Duration(cookie.MaxAge),
	})
}

// readHealthCheck parses an active health check. The value false is the same as
// no annotation. Bounds on interval and thresholds are checked in checkService,
// together with the rest of the backend.
func readHealthCheck(r *reading, at place, text string) {
	text = strings.TrimSpace(text)
	if text == "false" {
		return
	}
	var check v1alpha1.HealthCheck
	if problems := decode(text, "path", &check); len(problems) > 0 {
		r.problems(at, problems)
		return
	}
	result := &route.HealthCheck{
		Mode: route.CheckMode(check.Mode), Path: check.Path, Service: check.Service, Host: check.Host, Port: uint16(check.Port),
		Interval: route.Duration(check.Interval), Timeout: route.Duration(check.Timeout),
		Healthy: int(check.Healthy), Unhealthy: int(check.Unhealthy),
	}
	for _, status := range check.Statuses {
		result.Statuses = append(result.Statuses, route.StatusRange{From: status.From, To: status.To})
	}
	give(r, at, &r.service.HealthCheck, result)
}

// traefikServiceKeys returns Traefik's annotations of a Service.
func traefikServiceKeys() []*key {
	const service = traefikPrefix + "service."
	return append([]*key{
		{
			name: service + "serversscheme", closes: true, meaning: "As " + ownPrefix + "scheme.",
			form: "`http`, `https` or `h2c`", otherwise: "as there", example: "https",
			read: setting(func(r *reading) *Scheme { return &r.service.Scheme }, oneOf(SchemeHTTP, SchemeHTTPS, SchemeH2C)),
		},
		{
			name: service + "serverstransport", closes: true, meaning: "ServersTransport of group traefik.io: certificates and timeouts.",
			form: "`namespace-name@kubernetescrd`", otherwise: "none", example: "shop-internal@kubernetescrd",
			read: oneName(func(r *reading) **Name { return &r.service.Transport }, snapshot.TraefikServersTransport),
		},
		{
			name: service + "passhostheader", closes: true, meaning: "As " + ownPrefix + "pass-host-header.",
			form: "`true` or `false`", otherwise: "true", example: "false",
			read: setting(func(r *reading) **bool { return &r.service.PassHostHeader }, parseBool),
		},
		{
			name: service + "nativelb", closes: true, meaning: "As " + ownPrefix + "native-lb.",
			form: "`true` or `false`", otherwise: "the option nativeLBByDefault", example: "true",
			read: setting(func(r *reading) **bool { return &r.service.NativeLB }, parseBool),
		},
		{
			name: service + "nodeportlb", closes: true, meaning: "As " + ownPrefix + "node-port-lb.",
			form: "`true` or `false`", otherwise: "false", example: "true",
			read: setting(func(r *reading) **bool { return &r.service.NodePortLB }, parseBool),
		},
		{
			name: service + "middlewares", closes: true, meaning: "Middlewares for all requests to the Service. Not supported.",
			form: "list of names", otherwise: "none", example: "shop-auth@kubernetescrd",
			read: unsupported("name the middlewares in router.middlewares of each Ingress that uses the Service"),
		},
	}, traefikCookieKeys()...)
}
