package validate_test

import (
	"strings"
	"testing"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/install/validate"
)

const (
	account = "5f1e2d3c4b5a69788796a5b4"
	canary  = "slw_key1_canary3f9b0c1d7e"
)

// good begins the values of a tunnel that nothing is wrong with.
const good = `
global:
  platform:
    url: https://slipway.example.com
    accountId: ` + account + `
    userToken: {token: ` + canary + `}
  runtime:
    name: prod
`

// offline validates without a request.
func offline(t *testing.T, text string) validate.Report {
	t.Helper()
	return validate.Run(t.Context(), validate.Options{Values: strings.NewReader(text), Namespace: "slipway", Version: "0.1.0"})
}

// told returns severity, code and key of each finding.
func told(report validate.Report) string {
	var all []string
	for _, finding := range report.Findings {
		all = append(all, string(finding.Severity)+" "+finding.Code+" "+finding.Subject)
	}
	return strings.Join(all, "\n")
}

// TestGood: R50 to R53: the values of each mode are good.
func TestGood(t *testing.T) {
	base := strings.Replace(good, "    accountId: "+account+"\n", "", 1)
	for want, text := range map[string]string{
		"tunnel ": good,
		"ingress https://prod.example.com": base + `
    ingress: {enabled: true, hosts: [prod.example.com], className: nginx}`,
		"ingress https://203.0.113.7": base + `
    ingress: {enabled: true, hosts: [203.0.113.7], className: nginx, skipValidation: true}`,
		"httpRoute https://prod.example.com": base + `
    httpRoute: {enabled: true, hostnames: [prod.example.com], parentRefs: [{name: public}]}`,
		"mesh https://prod.example.com": base + `
    ingress: {enabled: false}
    ingressUrl: https://prod.example.com
tunnel-client: {enabled: false}`,
	} {
		report := offline(t, text)
		if len(report.Findings) > 0 || report.Mode+" "+report.URL != want {
			t.Errorf("%s: it is %s %s:\n%s", want, report.Mode, report.URL, told(report))
		}
	}
}

// bad is a mistake: what is changed in the good values, and the one finding.
type bad struct {
	name, from, to, want string
}

// mistakes are those of the table "Validated settings" and of the catalogue of
// checks that need no other system.
func mistakes() []bad {
	const (
		token   = "    userToken: {token: " + canary + "}\n"
		id      = "    accountId: " + account + "\n"
		runtime = "    name: prod\n"
	)
	ingress := func(fields string) string { return runtime + "    ingress: {enabled: true, " + fields + "}\n" }
	return []bad{
		{"R30 no YAML", "global:\n", "global: [\n", "error ValuesUnreadable "},
		{"R30 a key twice", runtime, runtime + runtime, "error ValuesUnreadable "},
		{"R30 a key that nobody reads", runtime, runtime + "    nmae: x\n", "error ValueUnknown global.runtime.nmae"},
		{"R30 another kind", runtime, runtime + "    singleNamespace: \"yes\"\n", "error ValueKind global.runtime.singleNamespace"},
		{"R30 a group that is none", runtime, runtime + "    ingress: true\n", "error ValueKind global.runtime.ingress"},
		{"R30 skipValidation as printed", "global:\n", "installer: skipValidation\nglobal:\n", "error ValueKind installer"},
		{"R31 no token", token, "", "error TokenMissing global.platform.userToken.token"},
		{"R31 token twice", token, "    userToken: {token: x, secretKeyRef: {name: mine}}\n", "error TokenTwice global.platform.userToken.token"},
		{"R31 token is a number", token, "    userToken: {token: 12345}\n", "error ValueKind global.platform.userToken.token"},
		{"P10 reserved Secret", token, "    userToken: {secretKeyRef: {name: codefresh-token}}\n", "error TokenSecretReserved global.platform.userToken.secretKeyRef.name"},
		{"P10 no name of a Secret", token, "    userToken: {secretKeyRef: {name: My_Secret}}\n", "error ValueInvalid global.platform.userToken.secretKeyRef.name"},
		{"R33 no name", runtime, "    name: \"\"\n", "error ValueInvalid global.runtime.name"},
		{"R33 P8 capitals", runtime, "    name: Prod\n", "error ValueInvalid global.runtime.name"},
		{"R43 P8 39 characters", runtime, "    name: " + strings.Repeat("a", 39) + "\n", "error ValueInvalid global.runtime.name"},
		{"R43 P8 begins with a digit", runtime, "    name: 1prod\n", "error ValueInvalid global.runtime.name"},
		{"R34 no account", id, "", "error AccountMissing global.platform.accountId"},
		{"R34 P12 no ID", id, "    accountId: acme\n", "error ValueInvalid global.platform.accountId"},
		{"R35 no hosts", runtime, ingress("className: nginx"), "error AccessMissing global.runtime.ingress.hosts, global.runtime.ingress.enabled"},
		{"R35 a URL as a host", runtime, ingress("className: nginx, hosts: ['https://prod.example.com']"), "error AccessInvalid global.runtime.ingress.hosts[0]"},
		{"R35 no host", runtime, ingress("className: nginx, hosts: ['prod example']"), "error AccessInvalid global.runtime.ingress.hosts[0]"},
		{"R35 a number as a host", runtime, ingress("className: nginx, hosts: [7]"), "error ValueKind global.runtime.ingress.hosts[0]"},
		{"R35 a wildcard", runtime, ingress("className: nginx, hosts: ['*.example.com']"), "error AccessInvalid global.runtime.ingress.hosts[0]"},
		{"R51 no class", runtime, ingress("hosts: [prod.example.com]"), "error AccessMissing global.runtime.ingress.className, global.runtime.ingress.enabled"},
		{"P13 protocol", runtime, ingress("hosts: [prod.example.com], className: nginx, protocol: ftp"), "error ValueInvalid global.runtime.ingress.protocol"},
		{"P13 http with certificates", runtime, ingress("hosts: [prod.example.com], className: nginx, protocol: http, tls: [{hosts: [prod.example.com]}]"), "error AccessContradiction global.runtime.ingress.protocol, global.runtime.ingress.tls"},
		{"tls as printed", runtime, ingress("hosts: [prod.example.com], className: nginx, tls: [{host: x}]"), "error AccessFieldUnknown global.runtime.ingress.tls"},
		{"R36 everything off", "global:\n", "tunnel-client: {enabled: false}\nglobal:\n", "error AccessMissing global.runtime.ingressUrl, tunnel-client.enabled, global.runtime.ingress.enabled, global.runtime.httpRoute.enabled"},
		{"R36 no URL", "global:\n  platform:", "tunnel-client: {enabled: false}\nglobal:\n  runtime: {name: prod, ingressUrl: prod.example.com}\n  platform:", "error AccessInvalid global.runtime.ingressUrl"},
		{"R53 mesh and tunnel", runtime, runtime + "    ingressUrl: https://prod.example.com\n", "error AccessContradiction global.runtime.ingressUrl, tunnel-client.enabled"},
		{"R123 no Gateway", runtime, runtime + "    httpRoute: {enabled: true, hostnames: [prod.example.com]}\n", "error AccessMissing global.runtime.httpRoute.parentRefs, global.runtime.httpRoute.enabled"},
		{"R123 no hostname", runtime, runtime + "    httpRoute: {enabled: true, parentRefs: [{name: public}]}\n", "error AccessMissing global.runtime.httpRoute.hostnames, global.runtime.httpRoute.enabled"},
		{"R37 no password", runtime, runtime + "    gitCredentials: {username: robot}\n", "error GitPasswordMissing global.runtime.gitCredentials.password.value"},
		{"R37 no server", good, "global: {platform: {enabled: false}, runtime: {gitCredentials: {password: {value: x}}, name: prod}}\n", "error GitServerMissing global.runtime.gitCredentials.url"},
		{"R37 password twice", runtime, runtime + "    gitCredentials: {password: {value: x, secretKeyRef: {name: git}}}\n", "error GitPasswordTwice global.runtime.gitCredentials.password.value"},
		{"R80 no PEM", token, token + "    tls: {caCerts: {secret: {create: true, content: x}}}\n", "error AuthoritiesInvalid global.platform.tls.caCerts.secret.content"},
		{"R80 two", token, token + "    tls: {caCerts: {secret: {create: true, content: x}, secretKeyRef: {name: ca}}}\n", "error AuthoritiesTwice global.platform.tls.caCerts.secret.create"},
		{"R79 no PEM", "global:\n", "agent: {repositories: {certificates: {git.example.com: x}}}\nglobal:\n", "error AuthoritiesInvalid agent.repositories.certificates.git.example.com"},
		{"no platform", "    url: https://slipway.example.com\n", "", "error PlatformURLMissing global.platform.url"},
		{"platform without TLS", "https://slipway.example.com", "http://slipway.example.com", "error PlatformURLNotEncrypted global.platform.url"},
		{"platform with a path", "https://slipway.example.com", "https://slipway.example.com/api", "error ValueInvalid global.platform.url"},
		{"R120 every namespace", runtime, runtime + "    singleNamespace: true\nagent: {namespaces: ['*']}\n", "error NamespacesContradiction agent.namespaces"},
		{"mesh without a Gateway", "global:\n  platform:", "tunnel-client: {enabled: false}\nglobal:\n  runtime: {name: prod, ingressUrl: 'https://prod.example.com', virtualService: {enabled: true}}\n  platform:", "error MeshGatewayMissing global.runtime.virtualService.gateway"},
		{"R25 R27 values of other charts", "global:\n", "argo-cd: {fullnameOverride: other, crds: {install: false}}\nglobal:\n", "warning ValueIgnored argo-cd"},
		{"too many replicas", "global:\n", "agent: {replicas: 11}\nglobal:\n", "error ValueInvalid agent.replicas"},
	}
}

// TestMistakes: R30 to R37, P8 to P13: each mistake gives exactly one finding, with
// a reason and a fix, and nothing secret in it.
func TestMistakes(t *testing.T) {
	for _, tt := range mistakes() {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.Replace(good, tt.from, tt.to, 1)
			if strings.Contains(tt.to, "runtime: {name: prod") {
				text = text[:strings.LastIndex(text, "  runtime:\n    name: prod")]
			}
			if text == good {
				t.Fatalf("%q is not in the values", tt.from)
			}
			report := offline(t, text)
			if told(report) != tt.want {
				t.Fatalf("found:\n%s\nwant:\n%s", told(report), tt.want)
			}
			found := report.Findings[0]
			if found.Message == "" || found.Fix == "" || strings.Contains(found.String(), canary) {
				t.Errorf("the finding is %s", found)
			}
			if report.OK() != (found.Severity != finding.Error) {
				t.Errorf("OK is %v", report.OK())
			}
		})
	}
}

// TestTwoKeys: contradictions name both keys.
func TestTwoKeys(t *testing.T) {
	for _, tt := range []struct{ text, code, first, second string }{
		{strings.Replace(good, "global:\n", "global:\n  codefresh: {accountId: '000000000000000000000000'}\n", 1),
			"ValueAliasConflict", "global.platform.accountId", "global.codefresh.accountId"},
		{"tunnel-client: {enabled: true}\n" + good + "    ingress: {enabled: true, hosts: [prod.example.com], className: nginx}\n",
			"AccessContradiction", "global.runtime.ingress.enabled", "tunnel-client.enabled"},
	} {
		report := offline(t, tt.text)
		if len(report.Findings) != 1 || !strings.HasPrefix(told(report), "error "+tt.code+" "+tt.first) || !strings.Contains(report.Findings[0].String(), tt.second) {
			t.Errorf("found %s", report.Findings)
		}
	}
}

// TestAliasIsRead: the documented spelling alone is enough.
func TestAliasIsRead(t *testing.T) {
	text := strings.Replace(good, "  platform:", "  codefresh:", 1)
	if report := offline(t, text); len(report.Findings) > 0 || report.Mode != "tunnel" {
		t.Errorf("found:\n%s", told(report))
	}
}

// tenMistakes has ten, of all kinds.
const tenMistakes = `
installer: {skipValidation: "no"}
agent: {replicas: 0, naemspaces: [a]}
edge: {service: {type: External}}
global:
  platform:
    url: http://slipway.example.com
    userToken: {secretKeyRef: {name: slipway-token}}
  runtime:
    name: My_Runtime
    ingress: {enabled: true, hosts: ["https://prod.example.com"]}
    gitCredentials: {username: robot}
`

// TestTenMistakes: ten mistakes give ten findings at once.
func TestTenMistakes(t *testing.T) {
	report := offline(t, tenMistakes)
	want := strings.TrimSpace(`
error ValueUnknown agent.naemspaces
error ValueInvalid agent.replicas
error ValueInvalid edge.service.type
error ValueInvalid global.runtime.name
error ValueKind installer.skipValidation
error PlatformURLNotEncrypted global.platform.url
error TokenSecretReserved global.platform.userToken.secretKeyRef.name
error AccessMissing global.runtime.ingress.className, global.runtime.ingress.enabled
error AccessInvalid global.runtime.ingress.hosts[0]
error GitPasswordMissing global.runtime.gitCredentials.password.value`)
	if told(report) != want {
		t.Errorf("found:\n%s\nwant:\n%s", told(report), want)
	}
}

// TestPlace: P9, R42: the namespace and the version are checked too.
func TestPlace(t *testing.T) {
	report := validate.Run(t.Context(), validate.Options{Values: strings.NewReader(good), Namespace: "Slip_way", Version: "newest"})
	if told(report) != "error NamespaceInvalid --namespace\nerror VersionInvalid --version" {
		t.Errorf("found:\n%s", told(report))
	}
}

// TestWithoutPlatform: a runtime of its own needs neither key nor account.
func TestWithoutPlatform(t *testing.T) {
	if report := offline(t, "global: {platform: {enabled: false}}\n"); len(report.Findings) > 0 {
		t.Errorf("found:\n%s", told(report))
	}
}

// FuzzValidate: whatever the file has, there is a report of complete findings.
func FuzzValidate(f *testing.F) {
	f.Add(good)
	f.Add(tenMistakes)
	for _, tt := range mistakes() {
		f.Add(strings.Replace(good, tt.from, tt.to, 1))
	}
	f.Fuzz(func(t *testing.T, text string) {
		report := offline(t, text)
		for _, finding := range report.Findings {
			if finding.Code == "" || finding.Message == "" || finding.Severity == "" {
				t.Errorf("an incomplete finding: %+v", finding)
			}
		}
	})
}
