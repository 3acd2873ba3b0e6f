package upstream_test

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/route"
)

// often is the interval of checks in tests. Tables are not validated here, so
// it can be shorter than people may write it.
const often = route.Duration(2 * time.Millisecond)

// patient is a timeout that is not waited for.
const patient = route.Duration(testTimeout)

// awaitHealth waits for an endpoint to have a state.
func (w *world) awaitHealth(t testing.TB, address string, want upstream.Health) upstream.EndpointState {
	t.Helper()
	programs.Until(t, fmt.Sprintf("%s to be %s", address, want), func() bool { return w.state(t, address).Health == want })
	return w.state(t, address)
}

// reaches reports whether requests go to an endpoint.
func reaches(t testing.TB, h *upstream.Handle, address string) bool {
	t.Helper()
	for range 40 {
		lease := pick(t, h, upstream.PickOptions{})
		got := lease.Endpoint().Address()
		lease.Done(upstream.Cancelled)
		if got == address {
			return true
		}
	}
	return false
}

// switchable is a backend whose health can be changed.
type switchable struct {
	address string
	fail    func(bool)
	reason  string // part of what the snapshot says then
}

// newSwitchable serves checks and requests with a handler.
func newSwitchable(t *testing.T, run func(testing.TB, http.HandlerFunc, ...func(*http.Server)) string) *switchable {
	var down atomic.Bool
	address := run(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ready" && down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		proto(w, r)
	})
	return &switchable{address, func(b bool) { down.Store(b) }, "it responded with 503"}
}

// runHTTP1 is runHTTP2 for HTTP/1.1.
func runHTTP1(t testing.TB, handler http.HandlerFunc, tune ...func(*http.Server)) string {
	t.Helper()
	return runHTTP2(t, handler, append(tune, func(s *http.Server) {
		s.Protocols = new(http.Protocols)
		s.Protocols.SetHTTP1(true)
	})...)
}

// newGRPC serves the health service of gRPC.
func newGRPC(t *testing.T, service string) *switchable {
	t.Helper()
	listener := listen(t, "127.0.0.1:0")
	status := health.NewServer()
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, status)
	programs.Background(t, func() { _ = server.Serve(listener) }, server.Stop)
	set := func(down bool) {
		value := grpc_health_v1.HealthCheckResponse_SERVING
		if down {
			value = grpc_health_v1.HealthCheckResponse_NOT_SERVING
		}
		status.SetServingStatus(service, value)
	}
	set(false)
	return &switchable{listener.Addr().String(), set, "not serving"}
}

// TestHealthChecks: an endpoint that fails them gets no request, until it
// passes again.
func TestHealthChecks(t *testing.T) {
	for _, test := range []struct {
		name   string
		victim *switchable
		check  route.HealthCheck
		h2c    bool
	}{
		{"http", newSwitchable(t, runHTTP1), route.HealthCheck{Path: "/ready"}, false},
		{"httpByHTTP2", newSwitchable(t, runHTTP2), route.HealthCheck{Path: "/ready"}, true},
		{"grpc", newGRPC(t, ""), route.HealthCheck{Mode: route.CheckGRPC}, true},
		{"grpcService", newGRPC(t, "shop.Cart"), route.HealthCheck{Mode: route.CheckGRPC, Service: "shop.Cart"}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, upstream.Config{})
			b := cart(test.victim.address)
			if test.h2c {
				b.Transport.Protocol = route.ProtocolH2C
			}
			test.check.Interval, test.check.Timeout = often, patient
			b.HealthCheck = &test.check
			w.serve(b)
			h := w.Handle(shop)
			programs.Until(t, "checks", func() bool { return w.Stats().Checks > 3 })
			if got := w.state(t, test.victim.address); got.Health != upstream.HealthReady {
				t.Fatalf("it is %s at first: %s", got.Health, got.Unhealthy)
			}
			test.victim.fail(true)
			if got := w.awaitHealth(t, test.victim.address, upstream.HealthUnhealthy); !strings.Contains(got.Unhealthy, test.victim.reason) {
				t.Errorf("the reason is %q, want one with %q", got.Unhealthy, test.victim.reason)
			}
			// The only one is used nevertheless; with another, it is not.
			lease := pick(t, h, upstream.PickOptions{})
			lease.Done(upstream.OK)
			more := *b
			more.Endpoints = append(more.Endpoints[:1:1], route.Endpoint{Address: netip.MustParseAddrPort(newGoodPod(t, test.h2c, test.check.Mode))})
			w.serve(&more)
			if reaches(t, h, test.victim.address) {
				t.Error("a request went to an endpoint that fails its checks")
			}
			test.victim.fail(false)
			w.awaitHealth(t, test.victim.address, upstream.HealthReady)
			if !reaches(t, h, test.victim.address) {
				t.Error("no request goes to an endpoint that passes its checks again")
			}
			stats := w.Stats()
			if stats.Unhealthy != 1 || stats.Recovered != 1 || stats.CheckFailures < 2 {
				t.Errorf("counted: %+v", stats)
			}
		})
	}
}

// newGoodPod is an endpoint that passes.
func newGoodPod(t *testing.T, h2c bool, mode route.CheckMode) string {
	switch {
	case mode == route.CheckGRPC:
		return newGRPC(t, "shop.Cart").address
	case h2c:
		return runHTTP2(t, proto)
	}
	return runHTTP1(t, proto)
}

// TestCheckRequest: what a check asks for.
func TestCheckRequest(t *testing.T) {
	for _, test := range []struct {
		name   string
		check  route.HealthCheck
		tune   func(*route.Backend)
		target string
		host   string // empty is the endpoint's address
	}{
		{"default", route.HealthCheck{}, func(*route.Backend) {}, "/", ""},
		{"path", route.HealthCheck{Path: "/healthz?full=1"}, func(*route.Backend) {}, "/healthz?full=1", ""},
		{"hostOfBackend", route.HealthCheck{}, func(b *route.Backend) { b.Transport.Host = "cart.example" }, "/", "cart.example"},
		{"host", route.HealthCheck{Host: "health.example"}, func(b *route.Backend) { b.Transport.Host = "cart.example" }, "/", "health.example"},
	} {
		t.Run(test.name, func(t *testing.T) {
			asked := make(chan string, 100)
			address := runHTTP1(t, func(w http.ResponseWriter, r *http.Request) {
				select {
				case asked <- r.Method + " " + r.RequestURI + " " + r.Host + " " + r.UserAgent():
				default:
				}
			})
			w := newWorld(t, upstream.Config{})
			b := cart(address)
			test.tune(b)
			test.check.Interval = often
			b.HealthCheck = &test.check
			w.serve(b)
			host := cmp.Or(test.host, address)
			if got, want := programs.Receive(t, asked, "a check"), "GET "+test.target+" "+host+" slipway-health"; got != want {
				t.Errorf("asked was %q, want %q", got, want)
			}
		})
	}
}

// TestCheckVerdicts: what passes and what does not.
func TestCheckVerdicts(t *testing.T) {
	answer := func(status int, body string) string {
		return runHTTP1(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		})
	}
	closed := listen(t, "127.0.0.1:0")
	must.Do(t, closed.Close())
	silent := script(t, func(conn net.Conn) { _, _ = conn.Read(make([]byte, 1000)); _, _ = conn.Read(make([]byte, 1)) })
	teapot := []route.StatusRange{{From: 200, To: 200}, {From: 418, To: 418}}
	for _, test := range []struct {
		name    string
		address string
		check   route.HealthCheck
		reason  string // empty passes
	}{
		{"redirect", answer(302, ""), route.HealthCheck{}, ""},
		{"notFound", answer(404, "no"), route.HealthCheck{}, "it responded with 404"},
		{"expected", answer(418, "short and stout"), route.HealthCheck{Statuses: teapot}, ""},
		{"unexpected", answer(204, ""), route.HealthCheck{Statuses: teapot}, "it responded with 204"},
		{"longAnswer", answer(200, strings.Repeat("x", 1<<20)), route.HealthCheck{}, ""},
		{"refused", closed.Addr().String(), route.HealthCheck{}, "cannot connect"},
		{"tcp", answer(500, ""), route.HealthCheck{Mode: route.CheckTCP}, ""},
		{"tcpRefused", closed.Addr().String(), route.HealthCheck{Mode: route.CheckTCP}, "cannot connect"},
		{"silent", silent, route.HealthCheck{Timeout: route.Duration(20 * time.Millisecond), Unhealthy: 1}, "no response within 20ms"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, upstream.Config{})
			b := cart(test.address)
			test.check.Interval = often
			test.check.Timeout = cmp.Or(test.check.Timeout, patient)
			b.HealthCheck = &test.check
			w.serve(b)
			if test.reason != "" {
				if got := w.awaitHealth(t, test.address, upstream.HealthUnhealthy); !strings.Contains(got.Unhealthy, test.reason) {
					t.Errorf("the reason is %q, want one with %q", got.Unhealthy, test.reason)
				}
				return
			}
			programs.Until(t, "checks", func() bool { return w.Stats().Checks > 4 })
			if got := w.Stats(); got.CheckFailures != 0 {
				t.Errorf("%d of %d checks failed: %s", got.CheckFailures, got.Checks, w.state(t, test.address).Unhealthy)
			}
		})
	}
}

// TestCheckThresholds: one failure changes no health, and one success does not where
// more are required.
func TestCheckThresholds(t *testing.T) {
	var asked atomic.Int64
	// Two failures of three never make a row of three; then five do. One success
	// among them is not enough.
	address := runHTTP1(t, func(w http.ResponseWriter, r *http.Request) {
		n := asked.Add(1)
		if n <= 9 && n%3 != 0 || n > 9 && n <= 20 && n != 15 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	w := newWorld(t, upstream.Config{})
	b := cart(address)
	b.HealthCheck = &route.HealthCheck{Interval: often, Timeout: patient, Unhealthy: 3, Healthy: 2}
	w.serve(b)
	programs.Until(t, "thirty checks", func() bool { return w.Stats().Checks >= 30 })
	w.awaitHealth(t, address, upstream.HealthReady)
	if stats := w.Stats(); stats.Unhealthy != 1 || stats.Recovered != 1 {
		t.Errorf("it failed %d times and came back %d times, want once each", stats.Unhealthy, stats.Recovered)
	}
}

// TestCheckOfOtherPort: requests go to one port and checks to another.
func TestCheckOfOtherPort(t *testing.T) {
	checked := newSwitchable(t, runHTTP1)
	address := runHTTP1(t, proto)
	w := newWorld(t, upstream.Config{})
	b := cart(address)
	b.HealthCheck = &route.HealthCheck{Path: "/ready", Port: netip.MustParseAddrPort(checked.address).Port(), Interval: often, Timeout: patient}
	w.serve(b)
	programs.Until(t, "a check", func() bool { return w.Stats().Checks > 0 })
	checked.fail(true)
	w.awaitHealth(t, address, upstream.HealthUnhealthy)
	roundTrip(t, w.Handle(shop))
	same := *b
	same.HealthCheck = &route.HealthCheck{Path: "/ready", Interval: often, Timeout: patient}
	w.serve(&same)
	w.awaitHealth(t, address, upstream.HealthReady)
}

// TestChecksAndChanges: health survives what does not concern it, and checks
// end with their declaration or their endpoint.
func TestChecksAndChanges(t *testing.T) {
	victim := newSwitchable(t, runHTTP1)
	victim.fail(true)
	w := newWorld(t, upstream.Config{})
	base := func() *route.Backend {
		b := cart(victim.address)
		b.HealthCheck = &route.HealthCheck{Path: "/ready", Interval: often, Timeout: patient}
		return b
	}
	w.serve(base())
	w.awaitHealth(t, victim.address, upstream.HealthUnhealthy)
	for _, change := range []func(*route.Backend){
		func(b *route.Backend) { b.Endpoints[0].Weight = 3 },
		func(b *route.Backend) { b.Balancing.Method = route.BalanceHash },
		func(b *route.Backend) { b.MaxInFlight = 10 },
		func(b *route.Backend) { b.HealthCheck.Healthy = 2 },
	} {
		b := base()
		change(b)
		w.serve(b)
		if got := w.state(t, victim.address); got.Health != upstream.HealthUnhealthy {
			t.Errorf("it is %s after a change", got.Health)
		}
	}
	b := base()
	b.HealthCheck = nil
	w.serve(b)
	if got := w.state(t, victim.address); got.Health != upstream.HealthReady {
		t.Errorf("it is %s without checks", got.Health)
	}
	w.serve(base())
	w.awaitHealth(t, victim.address, upstream.HealthUnhealthy)
	w.become(&route.Table{})
	// A check that ran ends; after it there is none. Another backend's checks
	// show that time passes.
	other := base()
	other.ID.Name, other.Endpoints[0] = "other", route.Endpoint{Address: netip.MustParseAddrPort(runHTTP1(t, proto))}
	w.serve(other)
	programs.Until(t, "checks of the other", func() bool { return w.Stats().Checks > w.Stats().CheckFailures+5 })
	failures := w.Stats().CheckFailures
	before := w.Stats().Checks
	programs.Until(t, "more checks of the other", func() bool { return w.Stats().Checks > before+10 })
	if got := w.Stats().CheckFailures; got != failures {
		t.Errorf("%d checks failed after their backend left", got-failures)
	}
}

// TestStaleConnectionOfCheck: a server that closes idle connections at once is
// healthy.
func TestStaleConnectionOfCheck(t *testing.T) {
	address := runHTTP1(t, proto, func(s *http.Server) { s.IdleTimeout = time.Microsecond })
	w := newWorld(t, upstream.Config{CheckAfter: time.Hour})
	b := cart(address)
	b.HealthCheck = &route.HealthCheck{Interval: often, Timeout: patient}
	w.serve(b)
	programs.Until(t, "checks", func() bool { return w.Stats().Checks > 20 })
	if got := w.Stats(); got.CheckFailures != 0 {
		t.Errorf("%d of %d checks failed: %s", got.CheckFailures, got.Checks, w.state(t, address).Unhealthy)
	}
}

// TestManyChecks: thousands of endpoints are checked by few goroutines.
func TestManyChecks(t *testing.T) {
	const endpoints = 3000
	port := programs.Serve(t, "0.0.0.0:0", func(net.Conn) {}).Port()
	b := &route.Backend{ID: shop, HealthCheck: &route.HealthCheck{Mode: route.CheckTCP, Interval: route.Duration(time.Hour), Timeout: patient}}
	for i := range endpoints {
		address := netip.AddrFrom4([4]byte{127, 1, byte(i / 250), byte(1 + i%250)})
		b.Endpoints = append(b.Endpoints, route.Endpoint{Address: netip.AddrPortFrom(address, port)})
	}
	w := newWorld(t, upstream.Config{})
	before := runtime.NumGoroutine()
	w.serve(b)
	if grown := runtime.NumGoroutine() - before; grown > 520 {
		t.Errorf("%d goroutines after the table came", grown)
	}
	programs.Until(t, "a check of each", func() bool { return w.Stats().Checks >= endpoints })
	programs.Until(t, "the end of goroutines", func() bool { return runtime.NumGoroutine()-before < 10 })
	if got := w.Stats().CheckFailures; got != 0 {
		t.Errorf("%d checks failed", got)
	}
}
