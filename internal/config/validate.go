package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"slipway.dev/slipway/internal/secret"
)

// nameRule describes the names that entry points and resolvers may have. Names
// are part of environment variables, so they have no underscores and no case.
const nameRule = "use lower-case letters, digits and dashes, at most 63 characters"

// Kubernetes validates names by the same two patterns (RFC 1123).
var (
	dnsLabel     = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	dnsSubdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
)

// validLabel reports whether a text is a DNS label of RFC 1123.
func validLabel(label string) bool { return len(label) <= 63 && dnsLabel.MatchString(label) }

// Validate checks every option and reports all problems at once, each with the
// name of the option and the fix. Options that need other packages, such as a
// label selector, are checked by the package that uses them.
func (e *Edge) Validate() error {
	c := &checker{}
	c.process(e.Log, e.Admin, e.Health)
	c.edgeTraffic(&e.Traffic)
	c.sharedLimits(&e.Shared)
	c.entryPoints(e)
	if _, err := e.Loops(); err != nil {
		c.add("eventLoops", "%s", err)
	}
	c.notNegative("providers.providersThrottleDuration", e.Providers.ProvidersThrottleDuration)
	if file := e.Providers.File; file != nil && file.Filename == "" {
		c.add("providers.file.filename", "is missing: name the file with the routes, or turn the provider off with providers.file=false")
	}
	if e.Providers.KubernetesIngress != nil {
		c.kubernetesIngress(e.Providers.KubernetesIngress)
	}
	if g := e.Providers.KubernetesGateway; g != nil {
		if e.Providers.KubernetesIngress == nil {
			c.add("providers.kubernetesGateway", "needs the provider kubernetesIngress, whose connection it shares: set providers.kubernetesIngress=true")
		}
		c.kubernetesGateway(g, e.Providers.KubernetesIngress)
	}
	c.ingressNGINX(&e.Providers)
	if k := e.Providers.KubernetesCRD; k != nil {
		if e.Providers.KubernetesIngress == nil {
			c.add("providers.kubernetesCRD", "needs the provider kubernetesIngress, whose connection it shares: set providers.kubernetesIngress=true")
		}
		c.oneOf("providers.kubernetesCRD.defaultRuleSyntax", k.DefaultRuleSyntax, "v3", "v2")
	}
	c.certificatesResolvers(e)
	c.observed(e)
	return errors.Join(c.findings...)
}

// checker collects findings, and the addresses that were checked so far.
// Messages start with a verb: add puts the name of the option before them.
type checker struct {
	findings  []error
	addresses []namedAddress
}

// namedAddress is an address that the process listens on, with its option.
type namedAddress struct {
	option string
	netip.AddrPort
}

// add records a finding for an option. The format must not quote secrets.
func (c *checker) add(option, format string, args ...any) {
	c.findings = append(c.findings, located{option, fmt.Errorf("%s %s", option, fmt.Sprintf(format, args...))})
}

// oneOf checks that a value is one of a list.
func (c *checker) oneOf(option, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		c.add(option, "is %s: choose one of %s", quoted(value), strings.Join(allowed, ", "))
	}
}

// notNegative checks a duration.
func (c *checker) notNegative(option string, d Duration) {
	if d < 0 {
		c.add(option, "is %s: it cannot be negative", d)
	}
}

// address checks one address, and that no option checked before uses it. Both
// would pass validation one by one, and the second listener would fail at
// start.
func (c *checker) address(option, text string) (netip.AddrPort, bool) {
	if text == "" {
		c.add(option, "is missing: write it as :port or ip:port")
		return netip.AddrPort{}, false
	}
	address, err := parseListen(text)
	if err != nil {
		c.add(option, "is %s: %v", quoted(text), err)
		return netip.AddrPort{}, false
	}
	for _, other := range c.addresses {
		if overlap(address, other.AddrPort) {
			c.add(option, "is %s, which %s has taken: choose another port", quoted(text), other.option)
			break
		}
	}
	c.addresses = append(c.addresses, namedAddress{option: option, AddrPort: address})
	return address, true
}

// parseListen parses :port or ip:port. A missing IP is the zero Addr, which
// means every interface. Host names other than localhost are refused: their
// addresses may change between two starts.
func parseListen(text string) (netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return netip.AddrPort{}, errors.New("write it as :port or ip:port, an IPv6 address in brackets")
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return netip.AddrPort{}, errors.New("the port is not a number from 0 to 65535")
	}
	switch host {
	case "":
		return netip.AddrPortFrom(netip.Addr{}, uint16(number)), nil
	case "localhost":
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return netip.AddrPort{}, errors.New("the part before the port is not an IP address")
	}
	return netip.AddrPortFrom(ip.Unmap(), uint16(number)), nil
}

// overlap reports whether the system refuses to listen on both addresses. Port
// 0 is any free port and overlaps with none.
func overlap(a, b netip.AddrPort) bool {
	if a.Port() != b.Port() || a.Port() == 0 {
		return false
	}
	for _, pair := range [][2]netip.Addr{{a.Addr(), b.Addr()}, {b.Addr(), a.Addr()}} {
		all, one := pair[0], pair[1]
		switch {
		// A listener on :: accepts IPv4 as well.
		case !all.IsValid(), all == netip.IPv6Unspecified():
			return true // both families
		case all == netip.IPv4Unspecified() && one.Is4():
			return true
		}
	}
	return a.Addr() == b.Addr()
}

// kubernetesIngress checks the options of the Ingress provider.
func (c *checker) kubernetesIngress(k *KubernetesIngress) {
	const prefix = "providers.kubernetesIngress."
	c.notNegative(prefix+"throttleDuration", k.ThrottleDuration)
	if k.Token.Reveal() == secret.Redacted {
		c.add(prefix+"token", "is the text that stands for a hidden token in printed options: set the token itself")
	}
	c.endpoint(prefix, k.Endpoint)
	c.namespaces(prefix+"namespaces", k.Namespaces, "")
	c.oneOf(prefix+"hostSharing", k.HostSharing, "deny", "behind", "open")
	c.ingressEndpoint(prefix+"ingressEndpoint.", k.IngressEndpoint)
}

// ingressNGINX checks the options of the provider for ingress-nginx.
func (c *checker) ingressNGINX(p *Providers) {
	const prefix = "providers.kubernetesIngressNGINX"
	n := p.KubernetesIngressNGINX
	switch {
	case n == nil:
	case p.KubernetesIngress == nil:
		c.add(prefix, "needs the provider kubernetesIngress, whose connection it shares: set providers.kubernetesIngress=true")
	case n.AnnotationClass == "":
		c.add(prefix+".annotationClass", "is empty: give the class, which is nginx in most clusters")
	case n.ControllerClass == "":
		c.add(prefix+".controllerClass", "is empty: give the controller, which is k8s.io/ingress-nginx in most clusters")
	case n.StatusLease != "":
		namespace, name, ok := strings.Cut(n.StatusLease, "/")
		if !ok || !validLabel(namespace) || !validSubdomain(name) {
			c.add(prefix+".statusLease", "is %s: write it as namespace/name, such as ingress-nginx/ingress-nginx-leader", quoted(n.StatusLease))
		}
	}
}

// endpoint checks the URL of the API server. Errors do not quote it, because a
// URL may contain a password.
func (c *checker) endpoint(prefix, text string) {
	option := prefix + "endpoint"
	if text == "" {
		return
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "":
		c.add(option, "is not a URL such as https://10.0.0.1:6443")
	case u.User != nil:
		c.add(option, "has a user name or password in it: take it out and use %stoken", prefix)
	case u.RawQuery != "" || u.Fragment != "":
		c.add(option, "has a part after ? or #: the API server has none")
	}
}

// ingressEndpoint checks the form of the status address, and that a Service and
// a fixed address are not both set.
func (c *checker) ingressEndpoint(prefix string, status IngressEndpoint) {
	if status.PublishedService != "" {
		namespace, name, ok := strings.Cut(status.PublishedService, "/")
		if !ok || !validLabel(namespace) || !validLabel(name) {
			c.add(prefix+"publishedService", "is %s: write it as namespace/name", quoted(status.PublishedService))
		}
		if status.IP != "" || status.Hostname != "" {
			c.add(prefix+"publishedService", "and an ip or hostname are both set: keep the Service, or the fixed address")
		}
	}
	ip, err := netip.ParseAddr(status.IP)
	if status.IP != "" && (err != nil || ip.Zone() != "") {
		c.add(prefix+"ip", "is %s: write one IPv4 or IPv6 address", quoted(status.IP))
	}
	if status.Hostname == "" {
		return
	}
	// Kubernetes refuses a status whose hostname is an IP address.
	if _, err := netip.ParseAddr(status.Hostname); err == nil {
		c.add(prefix+"hostname", "is the IP address %s: set ingressEndpoint.ip instead", quoted(status.Hostname))
	} else if len(status.Hostname) > 253 || !dnsSubdomain.MatchString(status.Hostname) {
		c.add(prefix+"hostname", "is %s: write a DNS name in lower case, such as edge.example.com", quoted(status.Hostname))
	}
}
