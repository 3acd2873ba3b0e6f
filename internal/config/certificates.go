package config

import (
	"encoding/base64"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"slipway.dev/slipway/internal/secret"
)

// CertificatesResolver obtains certificates for the Ingresses that name it. It
// is a group of its own, so that other protocols than ACME can be added.
type CertificatesResolver struct {
	ACME ACMEResolver `yaml:"acme"`
}

// ACMEResolver obtains certificates from a CA that speaks ACME (RFC 8555).
type ACMEResolver struct {
	Email          string        `yaml:"email" description:"Email address for messages of the certificate authority about certificates. It may be empty."`
	CAServer       string        `yaml:"caServer" description:"URL of the authority's ACME directory. By using it you agree to the authority's terms of service. The name of the resolver, as Ingresses write it in router.tls.certresolver, consists of lower-case letters, digits and dashes; upper case is converted to lower case."`
	CACertificate  string        `yaml:"caCertificate" description:"PEM file with the CA certificates that verify caServer itself. When empty, they are the system's."`
	KeyType        string        `yaml:"keyType" description:"Key of each certificate: EC256, EC384, RSA2048 or RSA4096. Each certificate has its own key, and each renewal a new one."`
	EAB            ACMEBinding   `yaml:"eab"`
	PreferredChain string        `yaml:"preferredChain" description:"Common name of the root of the preferred chain, if the authority offers several. When empty, or when there is no such chain, the authority's first chain is used."`
	HTTPChallenge  HTTPChallenge `yaml:"httpChallenge"`
	DNSChallenge   DNSChallenge  `yaml:"dnsChallenge"`
}

// ACMEBinding binds an ACME account to an existing account at the CA (external
// account binding, RFC 8555 section 7.3.4).
type ACMEBinding struct {
	KID         string      `yaml:"kid" description:"Key identifier of an external account, from the authority. It requires hmacEncoded."`
	HMACEncoded secret.Text `yaml:"hmacEncoded" description:"Key of the external account, in base64url as the authority gives it. Other users of a machine can see flags: prefer the file or the environment."`
}

// HTTPChallenge proves control of a host over plain HTTP (http-01).
type HTTPChallenge struct {
	EntryPoint string `yaml:"entryPoint" description:"Entry point that serves the responses to the authority's challenges. The authority connects to port 80 of the host, so that traffic must reach this entry point. Challenge responses take precedence over redirections and other routes of the entry point."`
}

// LetsEncrypt is the default ACME directory, that of the production
// environment.
const LetsEncrypt = "https://acme-v02.api.letsencrypt.org/directory"

// SetDefaults sets every option of the resolver to its default. The decoder
// calls it by this name for each resolver in the configuration.
func (r *CertificatesResolver) SetDefaults() {
	*r = CertificatesResolver{ACME: ACMEResolver{CAServer: LetsEncrypt, KeyType: "EC256", DNSChallenge: defaultDNSChallenge()}}
}

// certificatesResolvers checks all resolvers, in the order of their names, so
// that messages are stable.
func (c *checker) certificatesResolvers(e *Edge) {
	for _, name := range slices.Sorted(maps.Keys(e.CertificatesResolvers)) {
		at := "certificatesResolvers." + name
		if !validLabel(name) {
			c.add(at, "is not a valid name: %s", nameRule)
			continue
		}
		// Only Ingresses request certificates; a resolver without them is a
		// configuration that cannot work.
		if e.Providers.KubernetesIngress == nil {
			c.add(at, "is set, but nothing can request certificates: enable providers.kubernetesIngress, or remove it")
		}
		resolver := e.CertificatesResolvers[name].ACME
		c.acme(at+".acme.", &resolver)
		switch point := resolver.HTTPChallenge.EntryPoint; {
		case resolver.DNSChallenge.given():
			c.dnsChallenge(at+".acme.dnsChallenge.", &resolver.DNSChallenge)
			if point != "" {
				c.add(at+".acme.httpChallenge.entryPoint", "is set, and dnsChallenge too: remove one of them, or make two resolvers")
			}
		case point == "":
			c.add(at+".acme.httpChallenge.entryPoint", "is missing: name the entry point that gets what comes to port 80, or set dnsChallenge.provider")
		case !hasKey(e.EntryPoints, point):
			c.add(at+".acme.httpChallenge.entryPoint", "is %s, which is no entry point: name one of %s", quoted(point), strings.Join(slices.Sorted(maps.Keys(e.EntryPoints)), ", "))
		}
	}
}

// hasKey reports whether a map has a key.
func hasKey[V any](in map[string]V, key string) bool {
	_, there := in[key]
	return there
}

// acme checks one ACME resolver. Errors never quote the HMAC key.
func (c *checker) acme(prefix string, r *ACMEResolver) {
	c.oneOf(prefix+"keyType", r.KeyType, "EC256", "EC384", "RSA2048", "RSA4096")
	if strings.ContainsAny(r.Email, " ,<>\r\n") || r.Email != "" && !strings.Contains(r.Email, "@") {
		c.add(prefix+"email", "is %s: write one address such as ops@example.com", quoted(r.Email))
	}
	// ACME messages are signed, but an attacker who can change responses can issue
	// certificates.
	c.protectedURL(prefix+"caServer", r.CAServer, LetsEncrypt)
	hmac := r.EAB.HMACEncoded.Reveal()
	switch {
	case (r.EAB.KID == "") != (hmac == ""):
		c.add(prefix+"eab", "has one of kid and hmacEncoded: set both, or none")
	case hmac == secret.Redacted:
		c.add(prefix+"eab.hmacEncoded", "is the text that stands for a hidden key in printed options: set the key itself")
	case !validHMAC(hmac):
		c.add(prefix+"eab.hmacEncoded", "is not base64url: write the key as the authority gave it")
	}
}

// validHMAC reports whether a key is base64url, as CAs print it, with or
// without padding.
func validHMAC(text string) bool {
	_, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	return err == nil
}

// protectedURL checks a URL that must be HTTPS except on loopback.
func (c *checker) protectedURL(option, text, example string) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		c.add(option, "is not a URL such as %s", example)
	case u.User != nil || u.Fragment != "":
		c.add(option, "has a user name, a password or a part after #: take it out")
	case u.Scheme == "http" && !loopbackHost(u.Hostname()):
		c.add(option, "is not encrypted: write https, unless the server is on this machine")
	}
}

// loopbackHost reports whether a host is this machine. It resolves no names.
func loopbackHost(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}
