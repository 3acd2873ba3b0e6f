package preflight_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/preflight"
	"slipway.dev/slipway/internal/programs"
)

// outside is a world without a controller: the checks of the host only.
func externalURL(t testing.TB, stage preflight.Stage, issuer *pkitest.Authority) (preflight.World, preflight.Options) {
	t.Helper()
	world := preflight.World{
		Cluster: kubetest.Shared(t).Cluster, Roots: issuer.Pool,
		Resolver: serveDNS(t, map[string]netip.Addr{testHost + ".": frontAddress()}),
	}
	return world, preflight.Options{Stage: stage, StatusWait: time.Second, Settings: mode.Settings{
		Runtime: testRuntime, Namespace: "default", Ingress: mode.IngressSettings{Enabled: true, Hosts: []string{testHost}, ClassName: "none-of-this-name"},
	}}
}

// TestCertificates: R84: the certificate that the host shows, by real handshakes:
// its chain, its name and its validity, each reported separately.
func TestCertificates(t *testing.T) {
	issuer, stranger := pkitest.NewAuthority(t), pkitest.NewAuthority(t)
	day := 24 * time.Hour
	selfSigned := issued(t, nil, testHost, 60*day)
	everything := issued(t, nil, "TRAEFIK DEFAULT CERT", -day)
	for _, tt := range []struct {
		name  string
		shows tls.Certificate
		state preflight.State
		wants []string
	}{
		{"good chain", issued(t, issuer, testHost, 60*day), preflight.Passed, nil},
		{"expired", issued(t, issuer, testHost, -day), preflight.Failed, []string{"has expired on"}},
		{"expires soon", issued(t, issuer, testHost, 3*day), preflight.Warned, []string{"expires in"}},
		{"wrong name", issued(t, issuer, "other.example.com", 60*day), preflight.Failed, []string{"not for prod.example.com but for other.example.com"}},
		{"wildcard", issued(t, issuer, "*.example.com", 60*day), preflight.Passed, nil},
		{"self-signed", selfSigned, preflight.Failed, []string{"self-signed"}},
		{"stranger", issued(t, stranger, testHost, 60*day), preflight.Failed, []string{"the CA", "openssl s_client"}},
		{"all at once", everything, preflight.Failed, []string{"has expired on", "not for prod.example.com", "self-signed", "the controller's default certificate"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			serveTLS(t, tt.shows, router(testRuntime))
			for _, stage := range []preflight.Stage{preflight.Before, preflight.After} {
				world, options := externalURL(t, stage, issuer)
				options.Only = []preflight.Code{preflight.TLSCertificate}
				results := preflight.Run(t.Context(), world, options)
				if results[0].State != tt.state {
					t.Errorf("%s: %s", stage, shown(results[0]))
				}
				for _, want := range tt.wants {
					finds(t, results, preflight.TLSCertificate, tt.state, want)
				}
			}
		})
	}
}

// TestCertificateSecret: R84: before the install the Secret of the Ingress counts:
// the controller shows its own certificate until the Ingress is there.
func TestCertificateSecret(t *testing.T) {
	cluster, issuer := kubetest.Shared(t), pkitest.NewAuthority(t)
	serveTLS(t, issued(t, nil, "TRAEFIK DEFAULT CERT", time.Hour), router(testRuntime))
	world, options := externalURL(t, preflight.Before, issuer)
	s := &scene{t: t, cluster: cluster, world: world, options: options}
	s.options.Settings.Namespace = cluster.Namespace(t)
	s.options.Settings.Ingress.TLS = []mode.IngressTLS{{Hosts: []string{testHost}, SecretName: "prod-tls"}}
	finds(t, s.run(preflight.TLSCertificate), preflight.TLSCertificate, preflight.Warned, "the Secret of the certificate does not exist")
	s.certificate(t, "prod-tls")
	finds(t, s.run(preflight.TLSCertificate), preflight.TLSCertificate, preflight.Warned, "the controller's default certificate")
}

// TestSockets: R85: what is not there yet is a warning before the install and an
// error after it, and nothing that hangs keeps the checks.
func TestSockets(t *testing.T) {
	issuer := pkitest.NewAuthority(t)
	front := netip.AddrPortFrom(frontAddress(), 443).String()
	hang := func(ctx context.Context, _, _ string) (net.Conn, error) {
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond) // in place of the five seconds
		defer cancel()
		<-short.Done()
		return nil, short.Err()
	}
	for _, tt := range []struct {
		name  string
		start func(t *testing.T, world *preflight.World)
		code  preflight.Code
		want  string
	}{
		{"refused", func(*testing.T, *preflight.World) {}, preflight.TCP, "the connection is refused"},
		{"nothing answers", func(_ *testing.T, world *preflight.World) { world.Dial = hang }, preflight.TCP, "no response in time"},
		{"no record", func(t *testing.T, world *preflight.World) { world.Resolver = serveDNS(t, nil) }, preflight.DNS, "DNS has no record of prod.example.com"},
		{"no TLS", func(t *testing.T, _ *preflight.World) {
			programs.Serve(t, front, func(conn net.Conn) { _, _ = conn.Write([]byte("220 mail\r\n")) })
		}, preflight.TLSCertificate, "does not speak TLS"},
		{"closed at once", func(t *testing.T, _ *preflight.World) {
			programs.Serve(t, front, func(net.Conn) {})
		}, preflight.TLSCertificate, "does not speak TLS"},
		{"refused to the handshake", func(*testing.T, *preflight.World) {}, preflight.TLSCertificate, "cannot be read: the connection is refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for stage, state := range map[preflight.Stage]preflight.State{preflight.Before: preflight.Warned, preflight.After: preflight.Failed} {
				t.Run(string(stage), func(t *testing.T) {
					world, options := externalURL(t, stage, issuer)
					tt.start(t, &world)
					options.Only = []preflight.Code{tt.code}
					finds(t, preflight.Run(t.Context(), world, options), tt.code, state, tt.want)
				})
			}
		})
	}
}

// TestHangs: a host that accepts connections and does not respond ends the checks
// in their time, each with its reason.
func TestHangs(t *testing.T) {
	programs.Serve(t, netip.AddrPortFrom(frontAddress(), 443).String(), func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	world, options := externalURL(t, preflight.After, pkitest.NewAuthority(t))
	options.Only = []preflight.Code{preflight.TLSCertificate, preflight.TCP, preflight.URLResponse}
	results := preflight.Run(t.Context(), world, options)
	finds(t, results, preflight.TLSCertificate, preflight.Failed, "no response in time")
	finds(t, results, preflight.URLResponse, preflight.Failed, "no response in time")
}

// TestOtherIngresses: R98: where other Ingresses of the class have no address, ours
// will get none either; young ones prove nothing.
func TestOtherIngresses(t *testing.T) {
	s := controllerCases()[0].build(t, badState{})
	s.apply("apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: old}\nspec: {ingressClassName: CLASS, defaultBackend: {service: {name: a, port: {number: 80}}}}\n")
	clean(t, s.run(preflight.StatusReport))
	s.world.Now = func() time.Time { return time.Now().Add(time.Hour) }
	finds(t, s.run(preflight.StatusReport), preflight.StatusReport, preflight.Warned, "(of 1) has an address in its status")
}

// TestOwnClass: our own class and edge come with the chart, so before the install
// their absence is no problem, and the class is not created by hand: Helm would
// refuse it.
func TestOwnClass(t *testing.T) {
	s := newScene(t)
	s.options.Settings.Ingress.ClassName = "slipway"
	clean(t, s.run())
	s.options.Stage = preflight.After
	if found := finds(t, s.run(preflight.IngressClass), preflight.IngressClass, preflight.Failed, "edge.enabled=true"); found.Apply != nil {
		t.Error("it would be made outside of the release")
	}
}

// TestUnknownController: R18: an unknown controller is a warning, and what it does
// is looked at all the same.
func TestUnknownController(t *testing.T) {
	s := newScene(t)
	s.class("example.com/own-controller")
	results := s.run()
	finds(t, results, preflight.IngressClass, preflight.Warned, "none that is known")
	clean(t, s.run(preflight.TLSCertificate, preflight.TCP, preflight.DNS))
	s.installed(corev1.LoadBalancerIngress{})
	finds(t, s.run(preflight.StatusReport), preflight.StatusReport, preflight.Failed, "Progressing")
	s.installed(front())
	clean(t, s.run(preflight.StatusReport, preflight.URLResponse, preflight.RouteResources))
}

// TestURL: R35: a GET counts when the runtime's own router responds, regardless of
// the status, and a WebSocket has to reach it too.
func TestURL(t *testing.T) {
	issuer := pkitest.NewAuthority(t)
	status := func(code int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
	}
	noUpgrade := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		router(testRuntime).ServeHTTP(w, r)
	})
	for _, tt := range []struct {
		name    string
		handler http.Handler
		code    preflight.Code
		state   preflight.State
		want    string
	}{
		{"ours", router(testRuntime), preflight.URLResponse, preflight.Passed, ""},
		{"another runtime", router("staging"), preflight.URLResponse, preflight.Failed, `another runtime responds there: "staging"`},
		{"somebody else", status(200), preflight.URLResponse, preflight.Failed, "another server responds there"},
		{"no endpoints", status(503), preflight.URLResponse, preflight.Failed, "the controller responds with 503"},
		{"websocket", router(testRuntime), preflight.TCP, preflight.Passed, ""},
		{"no websocket", noUpgrade, preflight.TCP, preflight.Failed, "a proxy in front of it responds with 502"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			serveTLS(t, issued(t, issuer, testHost, 60*24*time.Hour), tt.handler)
			world, options := externalURL(t, preflight.After, issuer)
			options.Only = []preflight.Code{tt.code}
			results := preflight.Run(t.Context(), world, options)
			if tt.state != preflight.Passed {
				finds(t, results, tt.code, tt.state, tt.want)
			} else {
				clean(t, results)
			}
		})
	}
	world, options := externalURL(t, preflight.Before, issuer)
	options.Only = []preflight.Code{preflight.URLResponse, preflight.RouteResources}
	for _, result := range preflight.Run(t.Context(), world, options) {
		if result.State != preflight.Skipped {
			t.Errorf("before the install: %s", shown(result))
		}
	}
}

// TestDNSBeforeRecord: while the name has no record, the certificate is read from
// the address of the controller, and the record to create is reported.
func TestDNSBeforeRecord(t *testing.T) {
	s := controllerCases()[3].build(t, badState{})
	s.world.Resolver = serveDNS(t, nil)
	results := s.run()
	for _, result := range results {
		if result.Code != preflight.DNS && result.State != preflight.Passed && result.State != preflight.Skipped {
			t.Errorf("%s", shown(result))
		}
	}
	finds(t, results, preflight.DNS, preflight.Warned, "create the record prod.example.com. A "+frontAddress().String())
	s.balance("front", corev1.LoadBalancerIngress{IP: "203.0.113.7"})
	s.world.Resolver = serveDNS(t, map[string]netip.Addr{testHost + ".": frontAddress()})
	finds(t, s.run(preflight.DNS), preflight.DNS, preflight.Warned, "and the controller has 203.0.113.7")
}

// TestPlain: an address without TLS is a warning.
func TestPlain(t *testing.T) {
	world, options := externalURL(t, preflight.Before, pkitest.NewAuthority(t))
	options.Settings.Ingress.Protocol = "http"
	options.Only = []preflight.Code{preflight.TLSCertificate}
	finding := finds(t, preflight.Run(t.Context(), world, options), preflight.TLSCertificate, preflight.Warned, "without TLS")
	if !strings.Contains(finding.Fix, "https") {
		t.Errorf("the fix is %q", finding.Fix)
	}
}
