package validate

import (
	"crypto/x509"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/Masterminds/semver/v3"
	"k8s.io/apimachinery/pkg/util/validation"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/install/values"
	"slipway.dev/slipway/internal/secret"
)

// reserved are the Secrets of a runtime's own credential, which values must not
// name.
func reserved() []string { return []string{"slipway-token", "codefresh-token"} }

// offline runs the checks that need nothing but the values.
func (i *inspection) offline() {
	// A check skips keys that have an error already, so the basic checks come
	// first.
	i.checkPlace()
	if i.document.Flag(values.KeyPlatformEnabled) {
		i.checkPlatform()
		i.checkToken()
		i.checkAuthorities()
	}
	i.checkAccess()
	i.checkGitCredentials()
	i.checkRepositories()
	i.checkOptions()
}

// checkPlace checks what is not in the values (P9, R42).
func (i *inspection) checkPlace() {
	if problems := validation.IsDNS1123Label(i.options.Namespace); len(problems) > 0 {
		i.wrong(CodeNamespace, "--namespace", strconv.Quote(i.options.Namespace)+" is no name of a namespace", "write lower-case letters, digits and dashes, at most 63")
	}
	if version := i.options.Version; version != "" {
		if _, err := semver.StrictNewVersion(strings.TrimPrefix(version, "v")); err != nil {
			i.wrong(CodeVersion, "--version", strconv.Quote(version)+" is no version of a chart", "write one such as 0.1.0")
		}
	}
	if i.document.Flag(values.KeySingleNamespace) && slices.Contains(i.document.Texts("agent.namespaces"), "*") {
		i.wrong(CodeNamespaces, "agent.namespaces", "* is every namespace, and "+values.KeySingleNamespace+" is true", "name the namespaces, or set "+values.KeySingleNamespace+" to false")
	}
}

// checkPlatform checks the URL of the platform.
func (i *inspection) checkPlatform() {
	text := i.document.Text(values.KeyPlatformURL)
	if i.faulty(values.KeyPlatformURL) {
		return
	}
	if text == "" {
		i.wrong(CodeURLMissing, values.KeyPlatformURL, "it is missing", "write the URL of the platform, or set "+values.KeyPlatformEnabled+" to false for a runtime of its own")
		return
	}
	address, err := url.Parse(text)
	if err == nil && address.Scheme == "http" && !i.document.Flag("global.platform.allowHTTP") && !loopback(address.Hostname()) {
		i.wrong(CodeURLPlain, values.KeyPlatformURL, "it is not encrypted, and would show the runtime's tokens", "let it start with https://")
	}
}

// loopback reports whether a host is this machine, which a Pod cannot reach.
func loopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// checkToken checks that the API key is given once: inline or in a Secret, and
// not in one that is reserved (R31, P10).
func (i *inspection) checkToken() {
	inline, name := i.document.Text(values.KeyToken), i.document.Text(values.KeyTokenRefName)
	i.token = secret.New(strings.TrimSpace(inline))
	switch {
	case i.faulty(values.KeyToken) || i.faulty(values.KeyTokenRefName):
	case inline != "" && name != "":
		i.wrong(CodeTokenTwice, values.KeyToken, "the token is given inline, and "+values.KeyTokenRefName+" names a Secret", "keep one of them")
	case slices.Contains(reserved(), name):
		i.wrong(CodeTokenReserved, values.KeyTokenRefName, name+" is the Secret that a runtime keeps its own credential in", "choose another name")
	case inline == "" && name == "" && i.options.World == nil:
		// With a cluster, readToken decides: a runtime that has joined
		// needs no API key.
		i.tokenMissing()
	}
}

// tokenMissing reports that there is no API key.
func (i *inspection) tokenMissing() {
	i.wrong(CodeTokenMissing, values.KeyToken, "there is no API key to join the platform with",
		"kubectl create secret generic slipway-user-token -n "+i.options.Namespace+" --from-file=token=FILE, and set "+values.KeyTokenRefName)
}

// checkAuthorities checks the CA certificates of the platform, which are either
// in the values or in a Secret (R80).
func (i *inspection) checkAuthorities() {
	create, content := i.document.Flag(values.KeyCACreate), i.document.Text(values.KeyCAContent)
	if create && i.document.Text(values.KeyCARefName) != "" {
		i.wrong(CodeCATwice, values.KeyCACreate, "a Secret is to be made, and "+values.KeyCARefName+" names another", "keep one of them")
		return
	}
	if create && !i.faulty(values.KeyCAContent) && !certificates(content) {
		i.wrong(CodeCAInvalid, values.KeyCAContent, "it has no certificate in PEM", "write the authorities, each between BEGIN CERTIFICATE and END CERTIFICATE")
		return
	}
	if create {
		i.authorities = []byte(content)
	}
}

// certificates reports whether a text has a certificate in PEM.
func certificates(text string) bool { return x509.NewCertPool().AppendCertsFromPEM([]byte(text)) }

// checkRepositories checks the CA certificates of Git servers and registries
// (R79).
func (i *inspection) checkRepositories() {
	hosts := i.document.TextMap(values.KeyRepositoryCerts)
	names := make([]string, 0, len(hosts))
	for host := range hosts {
		names = append(names, host)
	}
	// Sorted, so that the report is stable.
	slices.Sort(names)
	for _, host := range names {
		if !certificates(hosts[host]) {
			i.wrong(CodeCAInvalid, values.KeyRepositoryCerts+"."+host, "it has no certificate in PEM", "write the authorities of "+host+", each between BEGIN CERTIFICATE and END CERTIFICATE")
		}
	}
}

// checkAccess resolves the access mode and reports contradictions (R33 to R36,
// P8, P13). It sets settings and chosen for the online checks.
func (i *inspection) checkAccess() {
	d := i.document
	s := mode.Settings{
		Runtime: d.Text(values.KeyRuntimeName), Namespace: i.options.Namespace, AccountID: d.Text(values.KeyAccountID),
		TunnelEnabled: d.FlagIfSet(mode.KeyTunnelEnabled), IngressURL: d.Text(mode.KeyIngressURL),
		Ingress: mode.IngressSettings{
			Enabled: d.Flag(mode.KeyIngressEnabled), Hosts: d.Texts(mode.KeyIngressHosts), ClassName: d.Text(mode.KeyIngressClassName),
			Protocol: d.Text(mode.KeyIngressProtocol), Labels: d.TextMap(mode.KeyIngressLabels),
		},
		HTTPRoute: mode.HTTPRouteSettings{
			Enabled: d.Flag(mode.KeyHTTPRouteEnabled), Hostnames: d.Texts(mode.KeyHTTPRouteHostnames),
			Protocol: d.Text(mode.KeyHTTPRouteProtocol), Labels: d.TextMap(mode.KeyHTTPRouteLabels),
		},
	}
	s.Ingress.TLS = objectsOf[mode.IngressTLS](i, mode.KeyIngressTLS)
	s.HTTPRoute.ParentRefs = objectsOf[mode.ParentRef](i, mode.KeyHTTPRouteParents)
	i.settings = s
	var found []finding.Finding
	i.chosen, found = mode.Resolve(s)
	for _, each := range found {
		if !i.reported(each) {
			i.add(each)
		}
	}
	i.report.Runtime, i.report.Account = s.Runtime, s.AccountID
	if i.chosen != mode.Unresolved {
		i.report.Mode, i.report.URL = i.chosen.String(), mode.URL(s, i.chosen)
	}
	joins := d.Flag(values.KeyPlatformEnabled)
	if joins && s.AccountID == "" && i.wantsTunnel() {
		i.wrong(CodeAccountMissing, values.KeyAccountID, "it is missing, and the tunnel is named after the account", "write the ID that slipway account get shows")
	}
	if d.Flag(values.KeyMeshEnabled) && d.Text(values.KeyMeshGateway) == "" && !i.faulty(values.KeyMeshGateway) {
		i.wrong(CodeMeshGateway, values.KeyMeshGateway, "it is missing, and a VirtualService belongs to a Gateway", "write name, or namespace/name")
	}
}

// wantsTunnel reports whether only the tunnel is configured, also if other
// values are wrong.
func (i *inspection) wantsTunnel() bool {
	s := &i.settings
	off := s.TunnelEnabled != nil && !*s.TunnelEnabled
	return !s.Ingress.Enabled && !s.HTTPRoute.Enabled && s.IngressURL == "" && !off
}

// reported reports whether the first key of a finding was refused already, or
// is a list with such an element.
func (i *inspection) reported(found finding.Finding) bool {
	key, _, _ := strings.Cut(found.Subject, ", ")
	return i.faulty(key) || slices.ContainsFunc(i.report.Findings, func(f finding.Finding) bool {
		return f.Severity == finding.Error && strings.HasPrefix(f.Subject, key+"[")
	})
}

// objectsOf decodes a list, and reports unknown fields.
func objectsOf[T any](i *inspection, key string) []T {
	made, err := values.Objects[T](i.document, key)
	if err != nil && !i.faulty(key) {
		i.wrong(CodeRouteUnknown, key, "it has a field that is not known, or of another kind", "write the fields as the documentation of the kind has them")
	}
	return made
}

// checkGitCredentials checks that the Git token is given at most once, inline
// or in a Secret (R37).
func (i *inspection) checkGitCredentials() {
	inline, name := i.document.Text(values.KeyGitPassword), i.document.Text(values.KeyGitRefName)
	i.git = secret.New(strings.TrimSpace(inline))
	switch {
	case i.faulty(values.KeyGitPassword) || i.faulty(values.KeyGitRefName):
	case inline != "" && name != "":
		i.wrong(CodeGitTwice, values.KeyGitPassword, "the Git token is given inline, and "+values.KeyGitRefName+" names a Secret", "keep one of them")
	case inline == "" && name == "" && (i.document.Text(values.KeyGitUsername) != "" || i.document.Text(values.KeyGitURL) != ""):
		// A user name or a URL shows that credentials were intended.
		i.wrong(CodeGitMissing, values.KeyGitPassword, "Git credentials are given without a password or token", "set "+values.KeyGitRefName+", or leave gitCredentials out")
	case inline+name != "" && i.document.Text(values.KeyGitURL) == "" && !i.document.Flag(values.KeyPlatformEnabled):
		i.wrong(CodeGitServer, values.KeyGitURL, "Git credentials are given without their server, and no account names it", "write what the URLs of the repositories begin with, such as https://github.com/acme")
	}
}
