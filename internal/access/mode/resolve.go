package mode

import (
	"cmp"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/wire"
)

const (
	protocolHTTP  = "http"
	protocolHTTPS = "https"
)

// hostName matches a DNS name in lower case, optionally with a wildcard as its first
// label.
var hostName = regexp.MustCompile(`^(\*\.)?([a-z0-9]([-a-z0-9]*[a-z0-9])?\.)*[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// accountID matches the IDs of the platform's accounts.
var accountID = regexp.MustCompile(`^[0-9a-f]{24}$`)

// Resolve returns the access mode of the settings and all findings. The mode is
// Unresolved if a finding is an error. The tunnel is the default when no other mode
// is enabled.
func Resolve(settings Settings) (Mode, []finding.Finding) {
	r := &resolution{settings: settings}
	if err := wire.RuntimeName(settings.Runtime); err != nil {
		r.invalid(err.Error(), "choose another name", KeyRuntimeName)
	}
	chosen := r.choose()
	r.check(chosen)
	if finding.HasErrors(r.findings) {
		return Unresolved, r.findings
	}
	return chosen, r.findings
}

// URL returns the URL at which the platform reaches a runtime in a mode. It is empty
// when it is not known, as for a tunnel before the registration.
func URL(settings Settings, chosen Mode) string {
	switch chosen {
	case Ingress:
		if len(settings.Ingress.Hosts) > 0 {
			return cmp.Or(settings.Ingress.Protocol, protocolHTTPS) + "://" + bracketed(settings.Ingress.Hosts[0])
		}
	case HTTPRoute:
		if len(settings.HTTPRoute.Hostnames) > 0 {
			return cmp.Or(settings.HTTPRoute.Protocol, protocolHTTPS) + "://" + settings.HTTPRoute.Hostnames[0]
		}
	case Mesh:
		return strings.TrimSuffix(settings.IngressURL, "/")
	case Tunnel:
		if settings.AccountID != "" && settings.TunnelDomain != "" {
			return protocolHTTPS + "://" + wire.TunnelLabel(settings.AccountID, settings.Runtime) + "." + settings.TunnelDomain
		}
	case Unresolved:
	}
	return ""
}

// bracketed returns a host as a URL spells it: IPv6 addresses in brackets (RFC 3986,
// section 3.2.2).
func bracketed(host string) string {
	if address, err := netip.ParseAddr(host); err == nil && address.Is6() {
		return "[" + host + "]"
	}
	return host
}

// resolution collects the findings of one call.
type resolution struct {
	settings Settings
	findings []finding.Finding
}

// add records a finding; the methods below set its code. Its subject is the
// keys: users search for them in their values.
func (r *resolution) add(code string, severity finding.Severity, message, fix string, keys []string) {
	r.findings = append(r.findings, finding.Finding{Code: code, Severity: severity, Subject: strings.Join(keys, ", "), Message: message, Fix: fix})
}

func (r *resolution) contradiction(message, fix string, keys ...string) {
	r.add(CodeContradiction, finding.Error, message, fix, keys)
}

func (r *resolution) missing(message, fix string, keys ...string) {
	r.add(CodeMissing, finding.Error, message, fix, keys)
}

func (r *resolution) invalid(message, fix string, keys ...string) {
	r.add(CodeInvalid, finding.Error, message, fix, keys)
}

func (r *resolution) unused(message, fix string, keys ...string) {
	r.add(CodeUnused, finding.Warning, message, fix, keys)
}

// choose returns the enabled mode and reports conflicts with other modes.
func (r *resolution) choose() Mode {
	s := &r.settings
	// nil is neither on nor off: the tunnel is the default only if nothing else
	// is selected.
	tunnelOn := s.TunnelEnabled != nil && *s.TunnelEnabled
	tunnelOff := s.TunnelEnabled != nil && !*s.TunnelEnabled
	if s.Ingress.Enabled && s.HTTPRoute.Enabled {
		r.contradiction("both are true, and a runtime is reached one way", "set one of them to false", KeyIngressEnabled, KeyHTTPRouteEnabled)
	}
	// Ingress and HTTPRoute have the same conflicts.
	for _, each := range []struct {
		mode Mode
		on   bool
		key  string
	}{{Ingress, s.Ingress.Enabled, KeyIngressEnabled}, {HTTPRoute, s.HTTPRoute.Enabled, KeyHTTPRouteEnabled}} {
		if !each.on {
			continue
		}
		if tunnelOn {
			r.contradiction("both are true, and a runtime is reached one way", "set one of them to false", each.key, KeyTunnelEnabled)
		}
		if s.IngressURL != "" && strings.TrimSuffix(s.IngressURL, "/") != URL(*s, each.mode) {
			r.contradiction(strconv.Quote(s.IngressURL)+" is not the address that follows from the hosts, "+strconv.Quote(URL(*s, each.mode)),
				"leave "+KeyIngressURL+" out", each.key, KeyIngressURL)
		}
	}
	// The order defines the precedence when several modes are enabled; the
	// conflict is reported already.
	switch {
	case s.Ingress.Enabled:
		return Ingress
	case s.HTTPRoute.Enabled:
		return HTTPRoute
	case s.IngressURL != "" && tunnelOff:
		return Mesh
	case s.IngressURL != "":
		r.contradiction("an address of a service mesh is set, and the tunnel is not off",
			"set "+KeyTunnelEnabled+" to false for the mesh, or leave "+KeyIngressURL+" out for the tunnel", KeyIngressURL, KeyTunnelEnabled)
		return Unresolved
	case tunnelOff:
		r.missing("the tunnel, the Ingress and the HTTPRoute are off, and there is no address of a service mesh",
			"set "+KeyIngressURL+" for a mesh, or turn one of the others on", KeyIngressURL, KeyTunnelEnabled, KeyIngressEnabled, KeyHTTPRouteEnabled)
		return Unresolved
	}
	return Tunnel
}

// check validates the settings of the mode and reports values that have no effect.
func (r *resolution) check(chosen Mode) {
	s := &r.settings
	if s.Ingress.Enabled {
		r.checkIngress()
	} else if len(s.Ingress.Hosts) > 0 {
		r.unused("hosts are set, and the Ingress is not enabled", "set "+KeyIngressEnabled+" to true, or leave the hosts out", KeyIngressHosts, KeyIngressEnabled)
	}
	if s.HTTPRoute.Enabled {
		r.checkHTTPRoute()
	} else if len(s.HTTPRoute.Hostnames) > 0 {
		r.unused("hostnames are set, and the HTTPRoute is not enabled", "set "+KeyHTTPRouteEnabled+" to true, or leave them out", KeyHTTPRouteHostnames, KeyHTTPRouteEnabled)
	}
	if s.IngressURL != "" {
		r.checkIngressURL()
	}
	if chosen == Tunnel && s.AccountID != "" && !accountID.MatchString(s.AccountID) {
		r.invalid(strconv.Quote(s.AccountID)+" is no id of an account", "write its 24 hexadecimal digits, as the platform shows them", KeyAccountID)
	}
}

// checkIngress validates the settings of an Ingress.
func (r *resolution) checkIngress() {
	ingress := &r.settings.Ingress
	if len(ingress.Hosts) == 0 {
		r.missing("an Ingress needs a host", "name one or more", KeyIngressHosts, KeyIngressEnabled)
	}
	if ingress.ClassName == "" {
		r.missing("an Ingress needs a class", "name the IngressClass of the controller: kubectl get ingressclass lists them", KeyIngressClassName, KeyIngressEnabled)
	}
	r.checkProtocol(ingress.Protocol, KeyIngressProtocol)
	for i, host := range ingress.Hosts {
		r.checkHost(host, i, true, KeyIngressHosts)
	}
	if ingress.Protocol == protocolHTTP && len(ingress.TLS) > 0 {
		r.contradiction("certificates are set for an address without TLS", "set the protocol to https, or leave tls out", KeyIngressProtocol, KeyIngressTLS)
	}
	for i, certificate := range ingress.TLS {
		key := KeyIngressTLS + "[" + strconv.Itoa(i) + "].hosts"
		for _, host := range certificate.Hosts {
			if !slices.Contains(ingress.Hosts, host) {
				r.unused("the certificate is for "+strconv.Quote(host)+", which is not among the hosts", "add it to "+KeyIngressHosts+" or leave it out", key, KeyIngressHosts)
			}
		}
	}
	r.checkLabels(ingress.Labels, KeyIngressLabels)
}

// checkHTTPRoute validates the settings of an HTTPRoute.
func (r *resolution) checkHTTPRoute() {
	given := &r.settings.HTTPRoute
	if len(given.Hostnames) == 0 {
		r.missing("an HTTPRoute needs a hostname", "name one or more", KeyHTTPRouteHostnames, KeyHTTPRouteEnabled)
	}
	if len(given.ParentRefs) == 0 {
		r.missing("an HTTPRoute needs a Gateway", "name it, with its namespace when that is another", KeyHTTPRouteParents, KeyHTTPRouteEnabled)
	}
	for i, parent := range given.ParentRefs {
		if parent.Name == "" {
			r.missing("a Gateway has no name", "write the name", KeyHTTPRouteParents+"["+strconv.Itoa(i)+"].name")
		}
	}
	r.checkProtocol(given.Protocol, KeyHTTPRouteProtocol)
	for i, host := range given.Hostnames {
		r.checkHost(host, i, false, KeyHTTPRouteHostnames)
	}
	r.checkLabels(given.Labels, KeyHTTPRouteLabels)
}

// checkProtocol accepts http, https and empty.
func (r *resolution) checkProtocol(protocol, key string) {
	if !slices.Contains([]string{"", protocolHTTP, protocolHTTPS}, protocol) {
		r.invalid(strconv.Quote(protocol)+" is not known", "write http or https", key)
	}
}

// checkHost validates one host. The first one forms the URL of the runtime, so it
// cannot be a wildcard.
func (r *resolution) checkHost(host string, index int, addresses bool, list string) {
	key := list + "[" + strconv.Itoa(index) + "]"
	if _, err := netip.ParseAddr(host); err == nil {
		if !addresses {
			r.invalid(strconv.Quote(host)+" is an address, and an HTTPRoute takes names", "write a name of DNS", key)
		}
		return
	}
	switch {
	case strings.Contains(host, "://"):
		r.invalid(strconv.Quote(host)+" is a URL", "write the host alone; the protocol has a key of its own", key)
	case len(host) > 253 || !hostName.MatchString(host):
		r.invalid(strconv.Quote(host)+" is no host", "write a name of DNS in lower case, without a port and a path", key)
	case index == 0 && strings.HasPrefix(host, "*."):
		r.invalid(strconv.Quote(host)+" is a wildcard, and the platform connects to the first host", "write a full name first", key)
	}
}

// checkLabels rejects values for labels that Slipway sets itself.
func (r *resolution) checkLabels(labels map[string]string, key string) {
	for name, value := range ownLabels(r.settings.Runtime) {
		if given, there := labels[name]; there && given != value {
			r.contradiction("the label "+name+" is ours, with the value "+strconv.Quote(value), "leave it out", key)
		}
	}
}

// checkIngressURL validates the URL of a mesh. The value is not repeated in messages:
// it may contain a password.
func (r *resolution) checkIngressURL() {
	address, err := url.Parse(r.settings.IngressURL)
	switch {
	case err != nil, address.Host == "", address.Scheme != protocolHTTP && address.Scheme != protocolHTTPS:
		r.invalid("it is no address", "write one such as https://runtime.example.com", KeyIngressURL)
	case address.User != nil:
		r.invalid("it has a user or a password", "leave them out: requests carry a token of their own", KeyIngressURL)
	case address.RawQuery != "" || address.ForceQuery || address.Fragment != "":
		r.invalid("it has a query or a fragment", "write the address of the runtime alone", KeyIngressURL)
	case strings.Trim(address.Path, "/") != "":
		r.invalid("it has a path, and the runtime serves "+wire.AppProxyPath+", "+wire.WebhooksPath+" and "+wire.WorkflowsPath+" at the root",
			"leave the path out", KeyIngressURL)
	}
}
