package config_test

import (
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/secret"
)

// defaults gives the options when nothing is set, with both providers on.
func defaults() *config.Edge {
	var edge config.Edge
	edge.Defaults()
	edge.Providers.File = &config.FileProvider{}
	edge.Providers.File.SetDefaults()
	edge.Providers.File.Filename = "routes.yaml"
	edge.Providers.KubernetesIngress = &config.KubernetesIngress{}
	edge.Providers.KubernetesIngress.SetDefaults()
	return &edge
}

func TestDefaultsAreValid(t *testing.T) {
	if err := defaults().Validate(); err != nil {
		t.Error(err)
	}
}

func TestValidate(t *testing.T) {
	const k = "providers.kubernetesIngress."
	for _, c := range []struct {
		name   string
		change func(e *config.Edge, k *config.KubernetesIngress)
		want   string // one line for each finding; none when it is valid
	}{
		{"host sharing", func(_ *config.Edge, k *config.KubernetesIngress) { k.HostSharing = "shared" },
			k + `hostSharing is "shared": choose one of deny, behind, open`},
		{"level", func(e *config.Edge, _ *config.KubernetesIngress) { e.Log.Level = "loud" },
			`log.level is "loud": choose one of debug, info, warn, error`},
		{"format", func(e *config.Edge, _ *config.KubernetesIngress) { e.Log.Format = "" },
			`log.format is "": choose one of auto, text, json`},
		{"admin elsewhere", func(e *config.Edge, _ *config.KubernetesIngress) { e.Admin.Address = "10.0.0.1:8090" },
			`admin.address is "10.0.0.1:8090", which others can reach: profiles show the contents of memory, so use a loopback address such as 127.0.0.1:8090`},
		{"admin everywhere", func(e *config.Edge, _ *config.KubernetesIngress) { e.Admin.Address = ":8090" },
			`admin.address is ":8090", which others can reach: profiles show the contents of memory, so use a loopback address such as 127.0.0.1:8090`},
		{"admin on all of IPv6", func(e *config.Edge, _ *config.KubernetesIngress) { e.Admin.Address = "[::]:8090" },
			`admin.address is "[::]:8090", which others can reach: profiles show the contents of memory, so use a loopback address such as 127.0.0.1:8090`},
		{"admin by name", func(e *config.Edge, _ *config.KubernetesIngress) { e.Admin.Address = "localhost:8090" }, ""},
		{"admin IPv6", func(e *config.Edge, _ *config.KubernetesIngress) { e.Admin.Address = "[::1]:8090" }, ""},
		{"admin mapped", func(e *config.Edge, _ *config.KubernetesIngress) { e.Admin.Address = "[::ffff:127.0.0.1]:8090" }, ""},
		{"no address", func(e *config.Edge, _ *config.KubernetesIngress) { e.Health.Address = "" },
			`health.address is missing: write it as :port or ip:port`},
		{"no port", func(e *config.Edge, _ *config.KubernetesIngress) { e.Health.Address = "8082" },
			`health.address is "8082": write it as :port or ip:port, an IPv6 address in brackets`},
		{"bad port", func(e *config.Edge, _ *config.KubernetesIngress) { e.Health.Address = ":65536" },
			`health.address is ":65536": the port is not a number from 0 to 65535`},
		{"host name", func(e *config.Edge, _ *config.KubernetesIngress) { e.Health.Address = "edge.example.com:80" },
			`health.address is "edge.example.com:80": the part before the port is not an IP address`},
		{"no entry point", func(e *config.Edge, _ *config.KubernetesIngress) { e.EntryPoints = nil },
			`entryPoints has none: set at least one, such as entryPoints.web.address`},
		{"entry point name", func(e *config.Edge, _ *config.KubernetesIngress) {
			e.EntryPoints["Web"] = entryPoint(":1")
		}, `entryPoints.Web is not a valid name: use lower-case letters, digits and dashes, at most 63 characters`},
		{"same port", func(e *config.Edge, _ *config.KubernetesIngress) {
			e.EntryPoints["other"] = entryPoint("127.0.0.1:8080")
		}, `entryPoints.web.address is ":8080", which entryPoints.other.address has taken: choose another port`},
		{"port of health", func(e *config.Edge, _ *config.KubernetesIngress) {
			e.EntryPoints["web"] = entryPoint("0.0.0.0:8082")
		}, `entryPoints.web.address is "0.0.0.0:8082", which health.address has taken: choose another port`},
		{"port of admin", func(e *config.Edge, _ *config.KubernetesIngress) { e.Health.Address = "127.0.0.1:8090" },
			`health.address is "127.0.0.1:8090", which admin.address has taken: choose another port`},
		{"same port, other address", func(e *config.Edge, _ *config.KubernetesIngress) {
			e.Health.Address = "127.0.0.2:8090"
			e.EntryPoints["web"] = entryPoint("[::1]:8090")
		}, ""},
		{"same port, other family", func(e *config.Edge, _ *config.KubernetesIngress) {
			e.EntryPoints = map[string]config.EntryPoint{"a": entryPoint("0.0.0.0:1"), "b": entryPoint("[::1]:1")}
		}, ""},
		{"any free port", func(e *config.Edge, _ *config.KubernetesIngress) {
			e.Admin.Address, e.Health.Address = "127.0.0.1:0", "127.0.0.1:0"
		}, ""},
		{"negative", func(e *config.Edge, k *config.KubernetesIngress) {
			e.Providers.ProvidersThrottleDuration = config.Duration(-time.Second)
			k.ThrottleDuration = config.Duration(-time.Minute)
		}, "providers.providersThrottleDuration is -1s: it cannot be negative\n" + k + "throttleDuration is -1m0s: it cannot be negative"},
		{"no file", func(e *config.Edge, _ *config.KubernetesIngress) { e.Providers.File.Filename = "" },
			`providers.file.filename is missing: name the file with the routes, or turn the provider off with providers.file=false`},
		{"redacted token", func(_ *config.Edge, k *config.KubernetesIngress) { k.Token = secret.New("[redacted]") },
			k + `token is the text that stands for a hidden token in printed options: set the token itself`},
		{"gateway", func(e *config.Edge, _ *config.KubernetesIngress) {
			e.Providers.KubernetesGateway = &config.KubernetesGateway{Addresses: []string{"192.0.2.1", "192.0.2.16/28"}}
		}, ""},
		{"gateway addresses", func(e *config.Edge, _ *config.KubernetesIngress) {
			e.Providers.KubernetesGateway = &config.KubernetesGateway{Addresses: []string{"192.0.2.300"}}
		}, `providers.kubernetesGateway.addresses has "192.0.2.300": write an address or a network such as 10.0.0.0/8`},
		{"gateway alone", func(e *config.Edge, _ *config.KubernetesIngress) {
			e.Providers.KubernetesIngress, e.Providers.KubernetesGateway = nil, &config.KubernetesGateway{}
		}, `providers.kubernetesGateway needs the provider kubernetesIngress, whose connection it shares: set providers.kubernetesIngress=true`},
		{"Traefik", func(e *config.Edge, _ *config.KubernetesIngress) {
			e.Providers.KubernetesCRD = &config.KubernetesCRD{DefaultRuleSyntax: "v2"}
		}, ""},
		{"Traefik alone", func(e *config.Edge, _ *config.KubernetesIngress) {
			e.Providers.KubernetesIngress, e.Providers.KubernetesCRD = nil, &config.KubernetesCRD{DefaultRuleSyntax: "v1"}
		}, `providers.kubernetesCRD needs the provider kubernetesIngress, whose connection it shares: set providers.kubernetesIngress=true` + "\n" +
			`providers.kubernetesCRD.defaultRuleSyntax is "v1": choose one of v3, v2`},
		{"endpoint", func(_ *config.Edge, k *config.KubernetesIngress) { k.Endpoint = "https://10.0.0.1:6443/base" }, ""},
		{"endpoint without scheme", func(_ *config.Edge, k *config.KubernetesIngress) { k.Endpoint = "10.0.0.1:6443" },
			k + `endpoint is not a URL such as https://10.0.0.1:6443`},
		{"endpoint with password", func(_ *config.Edge, k *config.KubernetesIngress) { k.Endpoint = "https://me:hidden@host" },
			k + `endpoint has a user name or password in it: take it out and use providers.kubernetesIngress.token`},
		{"endpoint with query", func(_ *config.Edge, k *config.KubernetesIngress) { k.Endpoint = "https://host?a=b" },
			k + `endpoint has a part after ? or #: the API server has none`},
		{"namespaces", func(_ *config.Edge, k *config.KubernetesIngress) { k.Namespaces = []string{"a", "B", "a", ""} },
			k + `namespaces has "B", which is not the name of a namespace: lower-case letters, digits and dashes, at most 63 characters` + "\n" +
				k + `namespaces has "a" twice: keep one` + "\n" +
				k + `namespaces has "", which is not the name of a namespace: lower-case letters, digits and dashes, at most 63 characters`},
		{"published service", func(_ *config.Edge, k *config.KubernetesIngress) {
			k.IngressEndpoint.PublishedService = "a/b"
		}, ""},
		{"published service shape", func(_ *config.Edge, k *config.KubernetesIngress) {
			k.IngressEndpoint.PublishedService = "a/b/c"
		}, k + `ingressEndpoint.publishedService is "a/b/c": write it as namespace/name`},
		{"published service and ip", func(_ *config.Edge, k *config.KubernetesIngress) {
			k.IngressEndpoint = config.IngressEndpoint{PublishedService: "a/b", IP: "10.0.0.1"}
		}, k + `ingressEndpoint.publishedService and an ip or hostname are both set: keep the Service, or the fixed address`},
		{"ip and hostname", func(_ *config.Edge, k *config.KubernetesIngress) {
			k.IngressEndpoint = config.IngressEndpoint{IP: "fd00::1", Hostname: "edge.example.com"}
		}, ""},
		{"bad ip", func(_ *config.Edge, k *config.KubernetesIngress) { k.IngressEndpoint.IP = "10.0.0.1, 10.0.0.2" },
			k + `ingressEndpoint.ip is "10.0.0.1, 10.0.0.2": write one IPv4 or IPv6 address`},
		{"ip with zone", func(_ *config.Edge, k *config.KubernetesIngress) { k.IngressEndpoint.IP = "fe80::1%eth0" },
			k + `ingressEndpoint.ip is "fe80::1%eth0": write one IPv4 or IPv6 address`},
		{"hostname is an ip", func(_ *config.Edge, k *config.KubernetesIngress) { k.IngressEndpoint.Hostname = "10.0.0.1" },
			k + `ingressEndpoint.hostname is the IP address "10.0.0.1": set ingressEndpoint.ip instead`},
		{"bad hostname", func(_ *config.Edge, k *config.KubernetesIngress) { k.IngressEndpoint.Hostname = "Edge_1" },
			k + `ingressEndpoint.hostname is "Edge_1": write a DNS name in lower case, such as edge.example.com`},
		{"entry point", func(e *config.Edge, _ *config.KubernetesIngress) {
			point := entryPoint(":8080")
			point.ProxyProtocol.TrustedIPs = []string{"10.0.0.0/8", "lb"}
			point.HTTP3 = &config.EntryPointHTTP3{}
			point.HTTP.MaxHeaders = 1
			point.HTTP.Redirections.EntryPoint.To = "websecure"
			point.Transport.RespondingTimeouts.IdleTimeout = 0
			e.EntryPoints["web"] = point
		}, `entryPoints.web.proxyProtocol.trustedIPs has "lb": write an address or a network such as 10.0.0.0/8` + "\n" +
			`entryPoints.web.http.maxHeaders is 1: choose a number from 10 to 10000` + "\n" +
			`entryPoints.web.http3 is on, but http.tls is not: HTTP/3 is always encrypted, so set entryPoints.web.http.tls=true` + "\n" +
			`entryPoints.web.http.redirections.entryPoint.to is "websecure", which is no entry point: name one, or write :port` + "\n" +
			`entryPoints.web.transport.respondingTimeouts.idleTimeout is 0s: it has to be above 0, or one client could hold a connection for ever`},
		{"redirected to itself", func(e *config.Edge, _ *config.KubernetesIngress) {
			point := entryPoint(":8080")
			point.HTTP.Redirections.EntryPoint.To = "web"
			e.EntryPoints["web"] = point
		}, `entryPoints.web.http.redirections.entryPoint.to is the entry point itself: clients would go round in circles`},
		{"redirected to a port", func(e *config.Edge, _ *config.KubernetesIngress) {
			point := entryPoint(":8080")
			point.HTTP.Redirections.EntryPoint.To = ":0"
			e.EntryPoints["web"] = point
		}, `entryPoints.web.http.redirections.entryPoint.to is ":0": write :port with a number from 1 to 65535`},
		{"all at once", func(e *config.Edge, k *config.KubernetesIngress) {
			e.Log.Level, e.Providers.File.Filename, k.IngressEndpoint.IP = "x", "", "y"
		}, `log.level is "x": choose one of debug, info, warn, error` + "\n" +
			`providers.file.filename is missing: name the file with the routes, or turn the provider off with providers.file=false` + "\n" +
			k + `ingressEndpoint.ip is "y": write one IPv4 or IPv6 address`},
	} {
		t.Run(c.name, func(t *testing.T) {
			edge := defaults()
			c.change(edge, edge.Providers.KubernetesIngress)
			got := ""
			if err := edge.Validate(); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestGatewayAddressesPerNamespace(t *testing.T) {
	e := defaults()
	e.Providers.KubernetesGateway = &config.KubernetesGateway{AddressesPerNamespace: -1}
	const want = "providers.kubernetesGateway.addressesPerNamespace is negative: use 0 for no limit"
	if err := e.Validate(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestValidateDatagrams: an entry point for UDP has a port of its own, and no options of HTTP.
func TestValidateDatagrams(t *testing.T) {
	edge := defaults()
	closed, encrypted := entryPoint("names/udp"), entryPoint(":443/udp")
	closed.UDP.Timeout = 0
	encrypted.HTTP.TLS = true
	edge.EntryPoints = map[string]config.EntryPoint{
		"web": entryPoint(":53/tcp"), "dns": entryPoint(":53/udp"), "closed": closed, "encrypted": encrypted,
	}
	want := `entryPoints.closed.address is "names/udp": write it as :port or ip:port, an IPv6 address in brackets` + "\n" +
		`entryPoints.closed.udp.timeout is 0s: it has to be above 0, or a client could hold a socket for ever` + "\n" +
		`entryPoints.encrypted.address is ":443/udp", which takes datagrams: remove http and http3 of the entry point, or /udp`
	if err := edge.Validate(); err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

func entryPoint(address string) config.EntryPoint {
	var point config.EntryPoint
	point.SetDefaults()
	point.Address = address
	return point
}

// entryPointOptions are those that each entry point has.
func entryPointOptions() map[string]string {
	const p = "entryPoints.<name>"
	return map[string]string{
		p + ".address":                                          `string ""`,
		p + ".reusePort":                                        `bool "false"`,
		p + ".proxyProtocol.trustedIPs":                         `list ""`,
		p + ".proxyProtocol.optional":                           `bool "false"`,
		p + ".forwardedHeaders.trustedIPs":                      `list ""`,
		p + ".forwardedHeaders.insecure":                        `bool "false"`,
		p + ".http.tls":                                         `bool "false"`,
		p + ".http.maxHeaderBytes":                              `number "32768"`,
		p + ".http.maxHeaders":                                  `number "100"`,
		p + ".http.encodedCharacters.allowEncodedSlash":         `bool "false"`,
		p + ".http.encodedCharacters.allowEncodedBackSlash":     `bool "false"`,
		p + ".http.encodedCharacters.allowEncodedNullCharacter": `bool "false"`,
		p + ".http.encodedCharacters.allowEncodedSemicolon":     `bool "false"`,
		p + ".http.encodedCharacters.allowEncodedHash":          `bool "false"`,
		p + ".http.encodedCharacters.allowBadEscapes":           `bool "false"`,
		p + ".http.upgradeProtocols":                            `list ""`,
		p + ".http.allowUnderscores":                            `bool "false"`,
		p + ".http2.maxConcurrentStreams":                       `number "100"`,
		p + ".udp.timeout":                                      `duration "1m0s"`,
		p + ".http3":                                            `switch "false"`,
		p + ".http3.advertisedPort":                             `number "0"`,
		p + ".transport.maxConnections":                         `number "10000"`,
		p + ".transport.maxConnectionsPerSource":                `number "0"`,
		p + ".transport.maxHold":                                `duration "1m0s"`,
		p + ".transport.respondingTimeouts.headerTimeout":       `duration "10s"`,
		p + ".transport.respondingTimeouts.readTimeout":         `duration "30s"`,
		p + ".transport.respondingTimeouts.writeTimeout":        `duration "30s"`,
		p + ".transport.respondingTimeouts.idleTimeout":         `duration "1m15s"`,
		p + ".transport.lifeCycle.requestAcceptGraceTimeout":    `duration "5s"`,
		p + ".transport.lifeCycle.graceTimeOut":                 `duration "30s"`,
		p + ".http.redirections.entryPoint.to":                  `string ""`,
		p + ".http.redirections.entryPoint.scheme":              `string "https"`,
		p + ".http.redirections.entryPoint.permanent":           `bool "true"`,
		p + ".http.redirections.entryPoint.priority":            `number "2147483646"`,
	}
}

// resolverOptions are those that each resolver of certificates has.
func resolverOptions() map[string]string {
	const p = "certificatesResolvers.<name>.acme."
	return map[string]string{
		p + "email":                    `string ""`,
		p + "caServer":                 `string "https://acme-v02.api.letsencrypt.org/directory"`,
		p + "caCertificate":            `string ""`,
		p + "keyType":                  `string "EC256"`,
		p + "eab.kid":                  `string ""`,
		p + "eab.hmacEncoded":          `secret ""`,
		p + "preferredChain":           `string ""`,
		p + "httpChallenge.entryPoint": `string ""`,

		p + "dnsChallenge.provider": `string ""`, p + "dnsChallenge.resolvers": `list ""`, p + "dnsChallenge.namespaces": `list ""`,
		p + "dnsChallenge.propagation.delayBeforeChecks": `duration "0s"`, p + "dnsChallenge.propagation.timeout": `duration "2m0s"`,
		p + "dnsChallenge.propagation.disableANSChecks": `bool "false"`, p + "dnsChallenge.propagation.disableChecks": `bool "false"`,
		p + "dnsChallenge.rfc2136.nameserver": `string ""`, p + "dnsChallenge.rfc2136.tsigKey": `string ""`,
		p + "dnsChallenge.rfc2136.tsigAlgorithm": `string "hmac-sha256"`, p + "dnsChallenge.rfc2136.tsigSecretFile": `string ""`,
		p + "dnsChallenge.acmeDNS.apiBase": `string ""`, p + "dnsChallenge.acmeDNS.accountsFile": `string ""`,
	}
}

// TestOptionList holds the list of options to the structs and to the names
// that the documents give.
func TestOptionList(t *testing.T) {
	const k = "providers.kubernetesIngress"
	want := map[string]string{
		"configFile":        `string ""`,
		"log.level":         `string "info"`,
		"log.format":        `string "auto"`,
		"admin.address":     `string "127.0.0.1:8090"`,
		"health.address":    `string ":8082"`,
		"shared.secretFile": `string ""`, "shared.limits.address": `string ""`, "shared.limits.peers": `list ""`,
		"providers.providersThrottleDuration":                       `duration "0s"`,
		"providers.file":                                            `switch "false"`,
		"providers.file.filename":                                   `string ""`,
		"providers.file.watch":                                      `bool "true"`,
		"providers.kubernetesGateway":                               `switch "false"`,
		"providers.kubernetesGateway.addresses":                     `list ""`,
		"providers.kubernetesGateway.addressesPerNamespace":         `number "8"`,
		"providers.kubernetesGateway.services":                      `bool "false"`,
		"providers.kubernetesIngressNGINX":                          `switch "false"`,
		"providers.kubernetesIngressNGINX.annotationClass":          `string "nginx"`,
		"providers.kubernetesIngressNGINX.controllerClass":          `string "k8s.io/ingress-nginx"`,
		"providers.kubernetesIngressNGINX.watchIngressWithoutClass": `bool "false"`,
		"providers.kubernetesIngressNGINX.configMapFile":            `string ""`,
		"providers.kubernetesIngressNGINX.publishStatus":            `bool "true"`,
		"providers.kubernetesIngressNGINX.statusLease":              `string ""`,
		"providers.kubernetesIngressNGINX.allowSnippetAnnotations":  `bool "false"`,
		"providers.kubernetesCRD":                                   `switch "false"`,
		"providers.kubernetesCRD.allowCrossNamespace":               `bool "false"`,
		"providers.kubernetesCRD.ingressClass":                      `string ""`,
		"providers.kubernetesCRD.labelSelector":                     `string ""`,
		"providers.kubernetesCRD.tcpEntryPoints":                    `list ""`,
		"providers.kubernetesCRD.tlsStoreNamespace":                 `string ""`,
		"providers.kubernetesCRD.defaultRuleSyntax":                 `string "v3"`,
		"providers.kubernetesGateway.serviceType":                   `string ""`,
		"providers.kubernetesGateway.targetPorts":                   `string "20000-20999"`,
		"providers.kubernetesGateway.deployment":                    `string ""`,
		"providers.kubernetesGateway.gateway":                       `string ""`,
		"providers.kubernetesGateway.edgeService":                   `string ""`,
		"providers.kubernetesGateway.targetPortsPerNamespace":       `number "100"`,
		k:                                       `switch "false"`,
		k + ".endpoint":                         `string ""`,
		k + ".token":                            `secret ""`,
		k + ".certAuthFilePath":                 `string ""`,
		k + ".namespaces":                       `list ""`,
		k + ".labelSelector":                    `string ""`,
		k + ".ingressClass":                     `string ""`,
		k + ".disableIngressClassLookup":        `bool "false"`,
		k + ".disableClusterScopeResources":     `bool "false"`,
		k + ".ingressEndpoint.ip":               `string ""`,
		k + ".ingressEndpoint.hostname":         `string ""`,
		k + ".ingressEndpoint.publishedService": `string ""`,
		"eventLoops":                            `string "auto"`,
		k + ".nodeName":                         `string ""`,
		k + ".throttleDuration":                 `duration "0s"`,
		k + ".allowEmptyServices":               `bool "false"`,
		k + ".allowCrossNamespace":              `bool "false"`,
		k + ".allowExternalNameServices":        `bool "false"`,
		k + ".hostSharing":                      `string "deny"`,
		k + ".nativeLBByDefault":                `bool "false"`,
		k + ".strictPrefixMatching":             `bool "true"`,
		k + ".disablePassHostHeaders":           `bool "false"`,
	}
	maps.Copy(want, observedOptions())
	maps.Copy(want, entryPointOptions())
	maps.Copy(want, resolverOptions())
	for _, o := range config.EdgeOptions() {
		if got := string(o.Type) + ` "` + o.Default + `"`; got != want[o.Name] {
			t.Errorf("%s: got %s, want %s", o.Name, got, want[o.Name])
		}
		delete(want, o.Name)
		if !strings.HasSuffix(o.Description, ".") {
			t.Errorf("%s: the description is no sentence: %q", o.Name, o.Description)
		}
		if env := "SLIPWAY_" + strings.ToUpper(strings.ReplaceAll(o.Name, ".", "_")); o.Environment != env {
			t.Errorf("%s: environment is %s", o.Name, o.Environment)
		}
	}
	for name := range want {
		t.Errorf("%s is missing", name)
	}
}

// TestEveryOptionArrives sets each option by flag to something that is not its
// default, and looks for it in what is effective.
func TestEveryOptionArrives(t *testing.T) {
	for _, o := range config.EdgeOptions() {
		if o.Name == "configFile" {
			continue
		}
		name := strings.ReplaceAll(o.Name, "<name>", "web")
		value := map[config.Type]string{
			config.TypeString: "x", config.TypeSecret: "x", config.TypeList: "x,y", config.TypeDuration: "9s", config.TypeNumber: "9",
			config.TypeSwitch: "true", config.TypeBool: map[string]string{"true": "false", "false": "true"}[o.Default],
		}[o.Type]
		shown := value
		if o.Type == config.TypeSecret {
			shown = "[redacted]"
		}
		edge, err := load(t, "--"+strings.ToLower(name)+"="+value)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		found := false
		for _, change := range edge.Changes() {
			found = found || change == config.Change{Option: name, Value: shown}
		}
		if !found {
			t.Errorf("%s=%s is not among %v", name, value, edge.Changes())
		}
	}
}

func TestGroups(t *testing.T) {
	groups := map[string]string{}
	for _, o := range config.EdgeOptions() {
		groups[o.Name] = o.Group()
	}
	for name, want := range map[string]string{
		"configFile":                                     "",
		"log.level":                                      "log",
		"entryPoints.<name>.address":                     "entryPoints.<name>",
		"providers.providersThrottleDuration":            "providers",
		"providers.kubernetesIngress":                    "providers.kubernetesIngress",
		"providers.kubernetesIngress.ingressEndpoint.ip": "providers.kubernetesIngress",
	} {
		if groups[name] != want {
			t.Errorf("%s: got %q, want %q", name, groups[name], want)
		}
	}
}

func TestChanges(t *testing.T) {
	if got := mustLoad(t, "").Changes(); got != nil {
		t.Errorf("nothing set: %v", got)
	}
	got := mustLoad(t, "--providers.kubernetesingress.token=hidden --entrypoints.web.address=:8080 --entrypoints.b.address=:1").Changes()
	want := []config.Change{
		{Option: "entryPoints.b.address", Value: ":1"},
		{Option: "providers.kubernetesIngress", Value: "true"},
		{Option: "providers.kubernetesIngress.token", Value: "[redacted]"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
}

// TestValidateNGINX: the provider for ingress-nginx needs the one for Ingresses, a class
// and a controller.
func TestValidateNGINX(t *testing.T) {
	for _, c := range []struct {
		change func(e *config.Edge)
		want   string
	}{
		{func(*config.Edge) {}, ""},
		{func(e *config.Edge) { e.Providers.KubernetesIngress = nil }, "providers.kubernetesIngressNGINX needs the provider kubernetesIngress"},
		{func(e *config.Edge) { e.Providers.KubernetesIngressNGINX.AnnotationClass = "" }, "providers.kubernetesIngressNGINX.annotationClass is empty"},
		{func(e *config.Edge) { e.Providers.KubernetesIngressNGINX.ControllerClass = "" }, "providers.kubernetesIngressNGINX.controllerClass is empty"},
		{func(e *config.Edge) {
			e.Providers.KubernetesIngressNGINX.StatusLease = "ingress-nginx/ingress-nginx-leader"
		}, ""},
		{func(e *config.Edge) { e.Providers.KubernetesIngressNGINX.StatusLease = "ingress-nginx-leader" }, `providers.kubernetesIngressNGINX.statusLease is "ingress-nginx-leader"`},
		{func(e *config.Edge) { e.Providers.KubernetesIngressNGINX.StatusLease = "ingress-nginx/Leader" }, "write it as namespace/name"},
	} {
		var e config.Edge
		e.Defaults()
		e.Providers.KubernetesIngress = &config.KubernetesIngress{}
		e.Providers.KubernetesIngress.SetDefaults()
		e.Providers.KubernetesIngressNGINX = &config.KubernetesIngressNGINX{}
		e.Providers.KubernetesIngressNGINX.SetDefaults()
		c.change(&e)
		err := e.Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}
