package config_test

import (
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/must"
)

// TestDNSChallenge: each bad setting has its own message, and a valid one none.
func TestDNSChallenge(t *testing.T) {
	const p = "certificatesResolvers.le.acme.dnsChallenge."
	bad := func(option, value string) string {
		return p + option + ` is "` + value + `": write an address such as 192.0.2.53 or ns1.example.org:53`
	}
	for _, c := range []struct {
		name   string
		change func(r *config.ACMEResolver, d *config.DNSChallenge)
		want   string
	}{
		{"rfc2136", func(*config.ACMEResolver, *config.DNSChallenge) {}, ""},
		{"addresses", func(_ *config.ACMEResolver, d *config.DNSChallenge) {
			d.Resolvers = []string{"1.1.1.1", "2001:db8::1", "[2001:db8::1]:53", "dns.example.org:5353", "localhost"}
		}, ""},
		{"acme-dns", func(_ *config.ACMEResolver, d *config.DNSChallenge) {
			d.Provider, d.AcmeDNS = "acme-dns", config.AcmeDNS{APIBase: "https://auth.example.org", AccountsFile: "accounts.json"}
		}, ""},
		{"both challenges", func(r *config.ACMEResolver, _ *config.DNSChallenge) { r.HTTPChallenge.EntryPoint = "web" },
			`certificatesResolvers.le.acme.httpChallenge.entryPoint is set, and dnsChallenge too: remove one of them, or make two resolvers`},
		{"no provider", func(_ *config.ACMEResolver, d *config.DNSChallenge) { d.Provider = "" },
			p + `provider is "": choose one of rfc2136, acme-dns`},
		{"no provider of acme-dns", func(_ *config.ACMEResolver, d *config.DNSChallenge) {
			*d = config.DNSChallenge{AcmeDNS: config.AcmeDNS{APIBase: "https://auth.example.org"}, Propagation: d.Propagation}
		}, p + `provider is "": choose one of rfc2136, acme-dns`},
		{"other provider", func(_ *config.ACMEResolver, d *config.DNSChallenge) { d.Provider = "route53" },
			p + `provider is "route53": choose one of rfc2136, acme-dns`},
		{"name servers", func(_ *config.ACMEResolver, d *config.DNSChallenge) {
			d.Resolvers, d.RFC2136.Nameserver = []string{"1.1.1.1:0", "-x"}, "ns1:99999"
		}, bad("resolvers", "1.1.1.1:0") + "\n" + bad("resolvers", "-x") + "\n" + bad("rfc2136.nameserver", "ns1:99999")},
		{"namespaces", func(_ *config.ACMEResolver, d *config.DNSChallenge) { d.Namespaces = []string{"Shop"} },
			p + `namespaces has "Shop", which is not the name of a namespace: lower-case letters, digits and dashes, at most 63 characters`},
		{"delay", func(_ *config.ACMEResolver, d *config.DNSChallenge) {
			d.Propagation.DelayBeforeChecks = config.Duration(-time.Second)
		}, p + `propagation.delayBeforeChecks is -1s: it cannot be negative`},
		{"no time", func(_ *config.ACMEResolver, d *config.DNSChallenge) { d.Propagation.Timeout = 0 },
			p + `propagation.timeout is 0s: choose at least 1s, and at most 8m0s together with delayBeforeChecks`},
		{"longest", func(_ *config.ACMEResolver, d *config.DNSChallenge) {
			d.Propagation.DelayBeforeChecks = config.Duration(6 * time.Minute)
		}, ""},
		{"too long", func(_ *config.ACMEResolver, d *config.DNSChallenge) {
			d.Propagation.DelayBeforeChecks = config.Duration(6*time.Minute + 1)
		}, p + `propagation.timeout is 2m0s: choose at least 1s, and at most 8m0s together with delayBeforeChecks`},
		{"empty rfc2136", func(_ *config.ACMEResolver, d *config.DNSChallenge) { d.RFC2136 = config.RFC2136{} },
			bad("rfc2136.nameserver", "") + "\n" +
				p + `rfc2136.tsigAlgorithm is "": choose one of hmac-sha1, hmac-sha224, hmac-sha256, hmac-sha384, hmac-sha512` + "\n" +
				p + `rfc2136.tsigKey is missing: write the name of the TSIG key` + "\n" +
				p + `rfc2136.tsigSecretFile is missing: name the file with the secret of the TSIG key`},
		{"empty acme-dns", func(_ *config.ACMEResolver, d *config.DNSChallenge) { d.Provider = "acme-dns" },
			p + `acmeDNS.apiBase is not a URL such as https://auth.example.org` + "\n" +
				p + `acmeDNS.accountsFile is missing: name the file with the accounts of the acme-dns server`},
		{"plain acme-dns", func(_ *config.ACMEResolver, d *config.DNSChallenge) {
			d.Provider, d.AcmeDNS = "acme-dns", config.AcmeDNS{APIBase: "http://auth.example.org", AccountsFile: "accounts.json"}
		}, p + `acmeDNS.apiBase is not encrypted: write https, unless the server is on this machine`},
	} {
		t.Run(c.name, func(t *testing.T) {
			checkResolver(t, c.want, func(_ *config.Edge, r *config.ACMEResolver) {
				dns := &r.DNSChallenge
				dns.Provider = "rfc2136"
				dns.RFC2136.Nameserver, dns.RFC2136.TSIGKey, dns.RFC2136.TSIGSecretFile = "192.0.2.53", "edge", "tsig"
				c.change(r, dns)
			})
		})
	}
}

// TestDNSChallengeSources: the names of Traefik work as flags, and lists have commas.
func TestDNSChallengeSources(t *testing.T) {
	const p = " --certificatesresolvers.le.acme.dnschallenge."
	edge := must.Get(load(t, strings.TrimSpace(p+"provider=rfc2136"+p+"resolvers=1.1.1.1,8.8.8.8:53"+p+"propagation.delaybeforechecks=5"+
		p+"propagation.disablechecks=true"+p+"rfc2136.nameserver=ns1"+p+"rfc2136.tsigkey=edge")))(t)
	got := edge.CertificatesResolvers["le"].ACME.DNSChallenge
	if got.Provider != "rfc2136" || len(got.Resolvers) != 2 || got.Propagation.DelayBeforeChecks != config.Duration(5*time.Second) ||
		!got.Propagation.DisableChecks || got.RFC2136.TSIGAlgorithm != "hmac-sha256" || got.Propagation.Timeout != config.Duration(2*time.Minute) {
		t.Errorf("got %+v", got)
	}
}
