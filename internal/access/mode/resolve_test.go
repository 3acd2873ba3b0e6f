package mode_test

import (
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/wire/platformv1"
)

func set(value bool) *bool { return &value }

const account = "0123456789abcdef01234567"

// base are settings without an access mode.
func base() mode.Settings {
	return mode.Settings{Runtime: "prod", Namespace: "slipway", AccountID: account, TunnelDomain: "tunnels.example.com"}
}

func withIngress(s *mode.Settings) {
	s.Ingress = mode.IngressSettings{Enabled: true, Hosts: []string{"runtime.example.com"}, ClassName: "slipway"}
}

func withRoute(s *mode.Settings) {
	s.HTTPRoute = mode.HTTPRouteSettings{Enabled: true, Hostnames: []string{"runtime.example.com"}, ParentRefs: []mode.ParentRef{{Name: "public"}}}
}

// TestModes: R50 to R53, R123: which settings give which mode and address.
func TestModes(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*mode.Settings)
		mode   mode.Mode
		url    string
	}{
		{"R53 nothing is set", func(*mode.Settings) {}, mode.Tunnel, "https://" + account + "-prod.tunnels.example.com"},
		{"R50 the tunnel is asked for", func(s *mode.Settings) { s.TunnelEnabled = set(true) }, mode.Tunnel, "https://" + account + "-prod.tunnels.example.com"},
		{"tunnel before the registration", func(s *mode.Settings) { s.AccountID = "" }, mode.Tunnel, ""},
		{"R51 ingress", withIngress, mode.Ingress, "https://runtime.example.com"},
		{"R51 ingress by an address", func(s *mode.Settings) {
			withIngress(s)
			s.Ingress.Hosts = []string{"203.0.113.7"}
			s.Ingress.Protocol = "http"
		}, mode.Ingress, "http://203.0.113.7"},
		{"ingress by a long address", func(s *mode.Settings) { withIngress(s); s.Ingress.Hosts = []string{"2001:db8::1"} }, mode.Ingress, "https://[2001:db8::1]"},
		{"ingress with the tunnel off", func(s *mode.Settings) { withIngress(s); s.TunnelEnabled = set(false) }, mode.Ingress, "https://runtime.example.com"},
		{"ingress with the address that follows", func(s *mode.Settings) { withIngress(s); s.IngressURL = "https://runtime.example.com/" }, mode.Ingress, "https://runtime.example.com"},
		{"R123 HTTPRoute", withRoute, mode.HTTPRoute, "https://runtime.example.com"},
		{"R52 mesh", func(s *mode.Settings) { s.TunnelEnabled = set(false); s.IngressURL = "https://mesh.example.com/" }, mode.Mesh, "https://mesh.example.com"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			settings := base()
			tt.change(&settings)
			got, findings := mode.Resolve(settings)
			if got != tt.mode || len(findings) > 0 {
				t.Fatalf("it is %s with %v", got, findings)
			}
			if url := mode.URL(settings, got); url != tt.url {
				t.Errorf("the address is %q", url)
			}
		})
	}
}

// findingCase is settings and what is found in them.
type findingCase struct {
	name   string
	change func(*mode.Settings)
	// want is code and keys of each, in their order; warnings have a question mark.
	want []string
}

// contradictions are settings that ask for several modes, or for none.
func contradictions() []findingCase {
	return []findingCase{
		{"R36 all off", func(s *mode.Settings) { s.TunnelEnabled = set(false) },
			[]string{"AccessMissing global.runtime.ingressUrl tunnel-client.enabled global.runtime.ingress.enabled global.runtime.httpRoute.enabled"}},
		{"R53 mesh with the tunnel on", func(s *mode.Settings) { s.IngressURL = "https://mesh.example.com" },
			[]string{"AccessContradiction global.runtime.ingressUrl tunnel-client.enabled"}},
		{"ingress and tunnel", func(s *mode.Settings) { withIngress(s); s.TunnelEnabled = set(true) },
			[]string{"AccessContradiction global.runtime.ingress.enabled tunnel-client.enabled"}},
		{"ingress and HTTPRoute", func(s *mode.Settings) { withIngress(s); withRoute(s) },
			[]string{"AccessContradiction global.runtime.ingress.enabled global.runtime.httpRoute.enabled"}},
		{"three at once", func(s *mode.Settings) {
			withIngress(s)
			withRoute(s)
			s.TunnelEnabled, s.IngressURL = set(true), "https://mesh.example.com"
		}, []string{
			"AccessContradiction global.runtime.ingress.enabled global.runtime.httpRoute.enabled",
			"AccessContradiction global.runtime.ingress.enabled tunnel-client.enabled",
			"AccessContradiction global.runtime.ingress.enabled global.runtime.ingressUrl",
			"AccessContradiction global.runtime.httpRoute.enabled tunnel-client.enabled",
			"AccessContradiction global.runtime.httpRoute.enabled global.runtime.ingressUrl",
		}},
		{"R35, R51 ingress without host and class", func(s *mode.Settings) { s.Ingress.Enabled = true; s.Ingress.Protocol = "ftp" }, []string{
			"AccessMissing global.runtime.ingress.hosts global.runtime.ingress.enabled",
			"AccessMissing global.runtime.ingress.className global.runtime.ingress.enabled",
			"AccessInvalid global.runtime.ingress.protocol",
		}},
		{"R35 bad hosts", func(s *mode.Settings) {
			withIngress(s)
			s.Ingress.Hosts = []string{"*.example.com", "https://a.example.com", "Upper.example.com", "a/b"}
		}, []string{
			"AccessInvalid global.runtime.ingress.hosts[0]", "AccessInvalid global.runtime.ingress.hosts[1]",
			"AccessInvalid global.runtime.ingress.hosts[2]", "AccessInvalid global.runtime.ingress.hosts[3]",
		}},
		{"TLS without TLS", func(s *mode.Settings) {
			withIngress(s)
			s.Ingress.Protocol, s.Ingress.TLS = "http", []mode.IngressTLS{{Hosts: []string{"b.example.com"}, SecretName: "c"}}
		}, []string{
			"AccessContradiction global.runtime.ingress.protocol global.runtime.ingress.tls",
			"AccessUnused? global.runtime.ingress.tls[0].hosts global.runtime.ingress.hosts",
		}},
	}
}

// mistakes are settings of one mode that are wrong.
func mistakes() []findingCase {
	return []findingCase{
		{"our labels", func(s *mode.Settings) {
			withIngress(s)
			s.Ingress.Labels = map[string]string{"slipway.dev/runtime": "other"}
		},
			[]string{"AccessContradiction global.runtime.ingress.labels"}},
		{"HTTPRoute without anything", func(s *mode.Settings) { s.HTTPRoute.Enabled = true }, []string{
			"AccessMissing global.runtime.httpRoute.hostnames global.runtime.httpRoute.enabled",
			"AccessMissing global.runtime.httpRoute.parentRefs global.runtime.httpRoute.enabled",
		}},
		{"HTTPRoute by an address", func(s *mode.Settings) { withRoute(s); s.HTTPRoute.Hostnames = []string{"203.0.113.7"} },
			[]string{"AccessInvalid global.runtime.httpRoute.hostnames[0]"}},
		{"hosts that nobody reads", func(s *mode.Settings) { s.Ingress.Hosts = []string{"a.example.com"} },
			[]string{"AccessUnused? global.runtime.ingress.hosts global.runtime.ingress.enabled"}},
		{"mesh with a password", func(s *mode.Settings) {
			s.TunnelEnabled = set(false)
			s.IngressURL = "https://u:CANARY@mesh.example.com"
		},
			[]string{"AccessInvalid global.runtime.ingressUrl"}},
		{"mesh with a path", func(s *mode.Settings) {
			s.TunnelEnabled = set(false)
			s.IngressURL = "https://mesh.example.com/runtime"
		},
			[]string{"AccessInvalid global.runtime.ingressUrl"}},
		{"R43 name, R34 account", func(s *mode.Settings) { s.Runtime, s.AccountID = strings.Repeat("x", 39), "me" },
			[]string{"AccessInvalid global.runtime.name", "AccessInvalid global.platform.accountId"}},
	}
}

// TestFindings: R35, R36, R43, R53: all problems are reported, with their keys.
func TestFindings(t *testing.T) {
	for _, tt := range slices.Concat(contradictions(), mistakes()) {
		t.Run(tt.name, func(t *testing.T) {
			settings := base()
			tt.change(&settings)
			resolved, findings := mode.Resolve(settings)
			var got []string
			errors := false
			for _, found := range findings {
				mark := ""
				if found.Severity == finding.Warning {
					mark = "?"
				} else {
					errors = true
				}
				got = append(got, found.Code+mark+" "+strings.ReplaceAll(found.Subject, ", ", " "))
				if found.Message == "" || found.Fix == "" || strings.Contains(found.String(), "CANARY") {
					t.Errorf("the finding is %q", found)
				}
			}
			if strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
				t.Errorf("found:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
			if (resolved == mode.Unresolved) != errors {
				t.Errorf("it is %s", resolved)
			}
		})
	}
}

// TestWire: each mode has its own word for the platform and for people.
func TestWire(t *testing.T) {
	words, numbers := map[string]bool{}, map[platformv1.AccessMode]bool{}
	for _, each := range []mode.Mode{mode.Unresolved, mode.Tunnel, mode.Ingress, mode.HTTPRoute, mode.Mesh} {
		words[each.String()], numbers[each.Wire()] = true, true
	}
	if len(words) != 5 || len(numbers) != 5 {
		t.Errorf("the modes are %v and %v", words, numbers)
	}
}

// TestShapes: R91, R92: which version has a router.
func TestShapes(t *testing.T) {
	for version, want := range map[string]mode.Shape{
		"": mode.OneRouter, "devel": mode.OneRouter, "0.0.543": mode.OneRouter, "v0.0.543": mode.OneRouter, "0.1.0": mode.OneRouter,
		"1.0.0": mode.OneRouter, "0.1.72": mode.OneRouter, "0.0.543-rc.1": mode.OneRouter, "10.0.1": mode.OneRouter,
		"0.0.542": mode.PerService, "v0.0.1": mode.PerService, "0.0.542+build": mode.PerService, "0.0.99": mode.PerService,
	} {
		if got, err := mode.ShapeOf(version); got != want || err != nil {
			t.Errorf("%q has the shape %v: %v", version, got, err)
		}
	}
	for _, version := range []string{"0.0", "latest", "0.0.x", "1.2.3.4", "0.0.99999999999"} {
		if _, err := mode.ShapeOf(version); err == nil {
			t.Errorf("%q is taken for a version", version)
		}
	}
}

// FuzzResolve: no settings give a mode without an address or a tunnel, or a finding
// without a message.
func FuzzResolve(f *testing.F) {
	f.Add("prod", "a.example.com", "https://mesh.example.com", byte(7))
	f.Add("", "*", "://", byte(0))
	f.Fuzz(func(t *testing.T, name, host, url string, bits byte) {
		settings := mode.Settings{Runtime: name, Namespace: "n", IngressURL: url}
		settings.Ingress = mode.IngressSettings{Enabled: bits&1 != 0, Hosts: []string{host}, ClassName: host, Protocol: []string{"", "http"}[bits>>7]}
		settings.HTTPRoute = mode.HTTPRouteSettings{Enabled: bits&2 != 0, Hostnames: []string{host}, ParentRefs: []mode.ParentRef{{Name: host}}}
		if bits&4 != 0 {
			settings.TunnelEnabled = set(bits&8 != 0)
		}
		resolved, findings := mode.Resolve(settings)
		if address := mode.URL(settings, resolved); resolved > mode.Tunnel && !strings.HasPrefix(address, "http") {
			t.Errorf("%s is reached at %q", resolved, address)
		}
		for _, finding := range findings {
			if finding.Code == "" || finding.Subject == "" || finding.Message == "" || finding.Fix == "" {
				t.Errorf("%#v", finding)
			}
		}
		if _, err := mode.YAML(mode.Objects(settings, resolved)...); err != nil {
			t.Error(err)
		}
		_, _ = mode.ShapeOf(name)
	})
}
