package main

import "fmt"

// Body sizes of the backend's two responses: one dominated by the cost per
// request, one by the cost per byte.
const (
	smallBody = 128
	largeBody = 100_000
)

// scenario is one kind of load, together with the routes that it needs.
type scenario struct {
	name  string
	about string
	body  int    // bytes of a response body
	tls   bool   // the client's side is encrypted
	load  loader // what makes the requests
	proto string // what the client's side speaks
	// routes is the number of host and path pairs; 0 means one host with all
	// its paths. With spread, requests go to all routes in random order,
	// otherwise all go to one of them.
	routes int
	spread bool
}

// houseScenarios returns all scenarios in the order in which they run. The
// series of routes shows how matching scales; the last one keeps the large
// table but requests a single route of it.
func houseScenarios() []scenario {
	const h1, h2 = "HTTP/1.1", "HTTP/2.0"
	all := []scenario{
		{name: "h1", about: "128 bytes, plain", body: smallBody, load: runWrk, proto: h1},
		{name: "h1-100k", about: "100 kB, plain", body: largeBody, load: runWrk, proto: h1},
		{name: "tls-h1", about: "128 bytes, TLS", body: smallBody, tls: true, load: runWrk, proto: h1},
		{name: "tls-h2", about: "128 bytes, TLS, HTTP/2, 8 connections with 8 streams each", body: smallBody, tls: true, load: runH2load, proto: h2},
		{name: "tls-new", about: "128 bytes, a full TLS handshake for each request", body: smallBody, tls: true, load: runHandshakes, proto: h1},
	}
	for _, routes := range []int{1, 1000, 10_000} {
		all = append(all, scenario{
			name: fmt.Sprintf("routes-%d", routes), about: fmt.Sprintf("128 bytes, plain, %d routes requested at random", routes),
			body: smallBody, load: runWrk, proto: h1, routes: routes, spread: true,
		})
	}
	return append(all, scenario{
		name: "routes-10000-same", about: "128 bytes, plain, one of 10000 routes",
		body: smallBody, load: runWrk, proto: h1, routes: 10_000,
	})
}

// scenarioNames returns the names for flags and their help.
func scenarioNames() []string {
	var names []string
	for _, s := range houseScenarios() {
		names = append(names, s.name)
	}
	return names
}

// routeKey is a route: a host and a path prefix.
type routeKey struct{ host, prefix string }

// pathsPerHost is the number of routes that share a host, as the paths of an
// Ingress do.
const pathsPerHost = 10

// routeKeys returns the routes of the scenario, those of one host adjacent. A
// single host is localhost, because load generators take SNI from the URL.
func (s scenario) routeKeys() []routeKey {
	if s.routes == 0 {
		return []routeKey{{host: "localhost", prefix: "/"}}
	}
	keys := make([]routeKey, s.routes)
	for i := range keys {
		keys[i] = routeKey{
			host:   fmt.Sprintf("app-%04d.bench.test", i/pathsPerHost),
			prefix: fmt.Sprintf("/part-%d/", i%pathsPerHost),
		}
	}
	return keys
}

// path returns the path to request below a route.
func (s scenario) path(key routeKey) string {
	if s.body == largeBody {
		return key.prefix + largeName
	}
	return key.prefix + "item"
}
