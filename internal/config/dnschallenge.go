package config

import (
	"net"
	"net/netip"
	"strconv"
	"time"
)

// The providers of DNS challenges, by the names that they have in Traefik.
const (
	ProviderRFC2136 = "rfc2136"
	ProviderAcmeDNS = "acme-dns"
)

// maxPropagation bounds the wait for one record, within the ten minutes of an order.
const maxPropagation = 8 * time.Minute

// DNSChallenge proves control of a domain by a TXT record (dns-01). No other
// challenge proves a wildcard.
type DNSChallenge struct {
	Provider    string         `yaml:"provider" description:"Protocol that writes the TXT records of DNS challenges: rfc2136 (dynamic updates with a TSIG key: BIND, Knot, PowerDNS) or acme-dns. It replaces httpChallenge, and makes certificates for wildcards possible."`
	Resolvers   []string       `yaml:"resolvers" description:"Recursive DNS servers that find CNAME records and name servers, as address or address:port: a list in a file, commas between them elsewhere. When empty, those of /etc/resolv.conf."`
	Namespaces  []string       `yaml:"namespaces" description:"Namespaces whose Ingresses may use this resolver: a list in a file, commas between names elsewhere. When empty, all of them. A DNS challenge proves every host of the zone, also one that does not lead to this edge."`
	Propagation DNSPropagation `yaml:"propagation"`
	RFC2136     RFC2136        `yaml:"rfc2136"`
	AcmeDNS     AcmeDNS        `yaml:"acmeDNS"`
}

// DNSPropagation is the wait for a record before the CA looks for it.
type DNSPropagation struct {
	DelayBeforeChecks Duration `yaml:"delayBeforeChecks" description:"Time to wait before the first check of a TXT record."`
	Timeout           Duration `yaml:"timeout" description:"Maximum time until all name servers have a TXT record. The order fails after it and is retried later."`
	DisableANSChecks  bool     `yaml:"disableANSChecks" description:"Check the TXT record at the resolvers instead of the authoritative name servers of its zone, for an edge that cannot reach these. Resolvers may cache that there is no record."`
	DisableChecks     bool     `yaml:"disableChecks" description:"Do not check the TXT record: after delayBeforeChecks the certificate authority looks for it."`
}

// RFC2136 has the options of dynamic updates.
type RFC2136 struct {
	Nameserver     string `yaml:"nameserver" description:"Primary name server of the zones, as host or host:port. It gets dynamic updates (RFC 2136) over TCP."`
	TSIGKey        string `yaml:"tsigKey" description:"Name of the TSIG key that signs updates. It needs the right to change TXT records."`
	TSIGAlgorithm  string `yaml:"tsigAlgorithm" description:"Algorithm of the TSIG key: hmac-sha1, hmac-sha224, hmac-sha256, hmac-sha384 or hmac-sha512."`
	TSIGSecretFile string `yaml:"tsigSecretFile" description:"File with the secret of the TSIG key in base64, such as a mounted Kubernetes Secret. It is read for each update."`
}

// AcmeDNS has the options of acme-dns.
type AcmeDNS struct {
	APIBase      string `yaml:"apiBase" description:"URL of the API of an acme-dns server."`
	AccountsFile string `yaml:"accountsFile" description:"JSON file with the account of each domain at the acme-dns server, such as a mounted Kubernetes Secret. It has the format of lego and cert-manager, and is read for each record."`
}

// defaultDNSChallenge returns the defaults; without a provider it is not used.
func defaultDNSChallenge() DNSChallenge {
	return DNSChallenge{
		Propagation: DNSPropagation{Timeout: Duration(2 * time.Minute)},
		RFC2136:     RFC2136{TSIGAlgorithm: "hmac-sha256"},
	}
}

// given reports whether the group is meant to be used, with or without its provider.
func (d *DNSChallenge) given() bool {
	return d.Provider != "" || d.RFC2136.Nameserver != "" || d.AcmeDNS.APIBase != ""
}

// dnsChallenge checks the DNS challenge of a resolver.
func (c *checker) dnsChallenge(prefix string, d *DNSChallenge) {
	c.oneOf(prefix+"provider", d.Provider, ProviderRFC2136, ProviderAcmeDNS)
	for _, server := range d.Resolvers {
		c.nameServer(prefix+"resolvers", server)
	}
	c.namespaces(prefix+"namespaces", d.Namespaces, "")
	c.notNegative(prefix+"propagation.delayBeforeChecks", d.Propagation.DelayBeforeChecks)
	if timeout := d.Propagation.Timeout; timeout < Duration(time.Second) || timeout+d.Propagation.DelayBeforeChecks > Duration(maxPropagation) {
		c.add(prefix+"propagation.timeout", "is %s: choose at least 1s, and at most %v together with delayBeforeChecks", timeout, maxPropagation)
	}
	switch d.Provider {
	case ProviderRFC2136:
		c.nameServer(prefix+"rfc2136.nameserver", d.RFC2136.Nameserver)
		c.oneOf(prefix+"rfc2136.tsigAlgorithm", d.RFC2136.TSIGAlgorithm, "hmac-sha1", "hmac-sha224", "hmac-sha256", "hmac-sha384", "hmac-sha512")
		c.required(prefix+"rfc2136.tsigKey", d.RFC2136.TSIGKey, "write the name of the TSIG key")
		c.required(prefix+"rfc2136.tsigSecretFile", d.RFC2136.TSIGSecretFile, "name the file with the secret of the TSIG key")
	case ProviderAcmeDNS:
		// The API gets the password of the account.
		c.protectedURL(prefix+"acmeDNS.apiBase", d.AcmeDNS.APIBase, "https://auth.example.org")
		c.required(prefix+"acmeDNS.accountsFile", d.AcmeDNS.AccountsFile, "name the file with the accounts of the acme-dns server")
	}
}

// required checks that a text is set.
func (c *checker) required(option, value, fix string) {
	if value == "" {
		c.add(option, "is missing: %s", fix)
	}
}

// nameServer checks the address of a DNS server.
func (c *checker) nameServer(option, text string) {
	host, port := text, "53"
	if h, p, err := net.SplitHostPort(text); err == nil {
		host, port = h, p
	}
	number, err := strconv.ParseUint(port, 10, 16)
	_, noIP := netip.ParseAddr(host)
	if err != nil || number == 0 || noIP != nil && (len(host) > 253 || !dnsSubdomain.MatchString(host)) {
		c.add(option, "is %s: write an address such as 192.0.2.53 or ns1.example.org:53", quoted(text))
	}
}
