package main

import (
	"context"
	"fmt"
)

// Body sizes of the backend's responses: one dominated by the cost per request, two
// by the cost per byte.
const (
	smallBody = 128
	largeBody = 100_000
	hugeBody  = 10_000_000
)

// kind is what the backend of a scenario serves.
type kind uint8

const (
	webServer kind = iota
	grpcUnary
	grpcStream
	webSocket
)

// scenario is one kind of load, together with the routes that it needs.
type scenario struct {
	name  string
	about string
	body  int    // bytes of a response body
	tls   bool   // the client's side is encrypted
	rsa   bool   // its certificate has an RSA key
	load  loader // what makes the requests
	proto string // what the client's side speaks
	// routes is the number of host and path pairs; 0 means one host with all
	// its paths. With spread, requests go to all routes in random order,
	// otherwise all go to one of them.
	routes int
	spread bool
	// endpoints gives each route an endpoint of its own.
	endpoints bool
	// kind is what the backend serves.
	kind kind
	// connections replaces the number of connections of a load.
	connections int
	// storm opens connections from as many clients at once as connections, beside a few connections that last.
	storm bool
	// share fixes the rate of the requests to this share of what the first proxy can
	// do; 0 sends as many as the proxy takes.
	share float64
	// beside starts clients that are there while the load runs, and whose requests do not count. finish ends them and
	// adds to the sample what they saw.
	beside func(ctx context.Context, o order) (finish func(*sample), err error)
}

// houseScenarios returns all scenarios in the order in which they run. The
// series of routes shows how matching scales; the last one keeps the large
// table but requests a single route of it.
func houseScenarios() []scenario {
	const h1, h2 = "HTTP/1.1", "HTTP/2.0"
	all := []scenario{
		{name: "h1", about: "128 bytes, plain", body: smallBody, load: runWrk, proto: h1},
		{name: "h1-100k", about: "100 kB, plain", body: largeBody, load: runWrk, proto: h1},
		{name: "h1-10m", about: "10 MB, plain, 8 connections", body: hugeBody, load: runWrk, proto: h1, connections: 8},
		{name: "h1-70", about: "128 bytes, plain, at 70 % of the rate of the first proxy", body: smallBody, load: runPaced, proto: h1, share: 0.7},
		{name: "h1-new", about: "128 bytes, plain, a connection for each request", body: smallBody, load: runNewConnections, proto: h1},
		{name: "h1-storm", about: fmt.Sprintf("128 bytes, plain, a connection for each request, %d clients at once; p50 and p99 are those of %d established connections", stormClients, establishedConnections), body: smallBody, load: runStorm, proto: h1, storm: true, connections: stormClients},
		{name: "h1-slow-readers", about: fmt.Sprintf("128 bytes, plain, beside %d clients that read 10 MB at %d kB/s each", slowReaders, slowRate/1000), body: smallBody, load: runWrk, proto: h1, beside: startSlowReaders},
		{name: "tls-h1", about: "128 bytes, TLS", body: smallBody, tls: true, load: runWrk, proto: h1},
		{name: "tls-h2", about: "128 bytes, TLS, HTTP/2, 8 connections with 8 streams each", body: smallBody, tls: true, load: runH2load, proto: h2},
		{name: "h3", about: "128 bytes, HTTP/3, 8 connections with 8 streams each", body: smallBody, tls: true, load: runHTTP3, proto: http3Proto},
		{name: "tls-new", about: "128 bytes, a full TLS handshake for each request", body: smallBody, tls: true, load: runNewConnections, proto: h1},
		{name: "tls-resumed", about: "128 bytes, a resumed TLS session for each request", body: smallBody, tls: true, load: runResumed, proto: h1},
		{name: "tls-storm", about: fmt.Sprintf("128 bytes, a full TLS handshake for each request, %d clients at once; p50 and p99 are those of %d established connections", tlsStormClients, establishedConnections), body: smallBody, tls: true, load: runStorm, proto: h1, storm: true, connections: tlsStormClients},
		{name: "tls-new-rsa", about: "128 bytes, a full TLS handshake with an RSA key for each request", body: smallBody, tls: true, rsa: true, load: runNewConnections, proto: h1},
		{name: "tls-resumed-rsa", about: "128 bytes, a resumed TLS session of an RSA key for each request", body: smallBody, tls: true, rsa: true, load: runResumed, proto: h1},
		{name: "grpc", about: "unary calls of 128 bytes, TLS, 8 connections with 8 streams each", tls: true, load: runH2load, proto: h2, kind: grpcUnary},
		{name: "grpc-stream", about: "messages of 128 bytes on 64 streams, TLS, 8 connections", tls: true, load: runStreams, proto: h2, kind: grpcStream},
		{name: "websocket", about: "messages of 128 bytes on 64 connections, plain", load: runWebSockets, proto: h1, kind: webSocket},
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
	}, scenario{
		name: "routes-5000-endpoints", about: "128 bytes, plain, 5000 routes with an endpoint each requested at random",
		body: smallBody, load: runWrk, proto: h1, routes: 5000, spread: true, endpoints: true,
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
	switch {
	case s.kind == grpcUnary:
		return unaryMethod
	case s.kind == grpcStream:
		return streamMethod
	case s.body == largeBody:
		return key.prefix + largeName
	case s.body == hugeBody:
		return key.prefix + hugeName
	}
	return key.prefix + "item"
}

// grpc reports whether the backend speaks gRPC.
func (s scenario) grpc() bool { return s.kind == grpcUnary || s.kind == grpcStream }

// backend starts what the proxies forward to, at one address or at one for each
// route. The caller must stop it, also after an error.
func (s scenario) backend(ctx context.Context, dir string) (stop func(), addresses []string, err error) {
	var address string
	switch {
	case s.endpoints:
		return startEndpoints(ctx, dir, s.routes)
	case s.grpc():
		stop, address, err = startEcho(serveGRPC)
	case s.kind == webSocket:
		stop, address, err = startEcho(serveWebSockets)
	default:
		stop = func() {}
		if addresses, err = freeAddresses(1); err != nil {
			return stop, nil, err
		}
		process, err := startBackend(ctx, dir, addresses)
		if err == nil {
			stop = func() { _ = process.End(nil) } // nothing depends on how it ends
		}
		return stop, addresses, err
	}
	return stop, []string{address}, err
}

// check fails until a proxy gives correct responses.
func (s scenario) check(ctx context.Context, at *site) error {
	switch {
	case s.grpc():
		return checkGRPC(ctx, at)
	case s.kind == webSocket:
		return checkWebSocket(ctx, at)
	}
	return newProbe(s, at).check(ctx)
}
