package config

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire/permission"
)

// Validate checks every option and reports all problems at once, each with the
// name of the option and the fix. It opens no file and sends no request.
func (p *Platform) Validate() error {
	c := &checker{}
	c.process(p.Log, p.Admin, p.Health)
	c.platformServer(p)
	c.database(&p.Database)
	c.tunnel(&p.Tunnel)
	c.webURL("peer.url", p.Peer.BaseURL(), "http", "https")
	c.firstStart(&p.FirstStart)
	c.identity(p)
	c.keys(&p.Keys)
	c.notNegative("audit.retention", p.Audit.Retention)
	c.notNegative("history.deployments", p.History.Deployments)
	c.notNegative("history.traffic", p.History.Traffic)
	if http := p.Audit.OTLP.HTTP; http.Endpoint != "" {
		c.collector("audit.otlp.http.", http)
	} else if http != (OTLPHTTP{}) {
		c.add("audit.otlp.http.endpoint", "is missing: write the URL of the collector, or leave the other options of audit.otlp.http empty")
	}
	c.rights(&p.Rights)
	c.networks("outbound.allow", p.Outbound.Allow)
	if p.OIDC != nil {
		c.oidc(p.OIDC)
	}
	return errors.Join(c.findings...)
}

// identity checks that users can sign in.
func (c *checker) identity(p *Platform) {
	c.oneOf("identity.passwords", p.Identity.Passwords, PasswordsEnabled, PasswordsDisabled)
	c.oneOf("identity.secondFactor", p.Identity.SecondFactor, SecondFactorOptional, SecondFactorRequired)
	if p.Identity.Passwords == PasswordsDisabled && p.OIDC == nil {
		c.add("identity.passwords", "is disabled and there is no identity provider: no user could sign in; set oidc.issuer and oidc.clientID")
	}
}

// keys checks the lifetimes of API keys. A day is what the installation of a
// runtime requests.
func (c *checker) keys(keys *APIKeys) {
	const day = Duration(24 * 3600 * 1e9)
	c.notNegative("keys.defaultLifetime", keys.DefaultLifetime)
	c.notNegative("keys.maxLifetime", keys.MaxLifetime)
	switch {
	case keys.MaxLifetime <= 0:
	case keys.MaxLifetime < day:
		c.add("keys.maxLifetime", "is %s: write at least 24h, which the key of a runtime's installation needs, or 0 for no limit", keys.MaxLifetime)
	case keys.DefaultLifetime > keys.MaxLifetime:
		c.add("keys.defaultLifetime", "is %s, more than keys.maxLifetime with %s", keys.DefaultLifetime, keys.MaxLifetime)
	}
}

// platformServer checks that sessions and keys do not travel unencrypted by
// accident: an address that others can reach needs TLS or an explicit
// behindProxy.
func (c *checker) platformServer(p *Platform) {
	address, ok := c.address("server.address", p.Server.Address)
	loopback := ok && address.Addr().IsLoopback()
	encrypted := p.TLS.CertFile != "" && p.TLS.KeyFile != ""
	if (p.TLS.CertFile == "") != (p.TLS.KeyFile == "") {
		c.add("tls", "has one of certFile and keyFile: give both or neither")
	}
	if encrypted && p.Server.BehindProxy {
		c.add("server.behindProxy", "is set for a proxy that terminates TLS, but tls has a certificate: keep one of the two")
	}
	// With only one of the two files the message above is enough.
	if ok && !loopback && !encrypted && !p.Server.BehindProxy && (p.TLS.CertFile == "") == (p.TLS.KeyFile == "") {
		c.add("server.address", "is %s, which others can reach without encryption: set tls.certFile and tls.keyFile, or server.behindProxy=true when a proxy terminates TLS", quoted(p.Server.Address))
	}
	public := c.webURL("server.publicURL", p.Server.PublicURL, "http", "https")
	switch {
	case p.Server.PublicURL == "" && ok && !loopback:
		c.add("server.publicURL", "is missing: write the URL under which others reach the platform, such as https://slipway.example.com")
	case public != nil && public.Scheme == "http" && !loopbackHost(public.Hostname()):
		c.add("server.publicURL", "is not encrypted: let it start with https://")
	case public != nil && strings.Trim(public.Path, "/") != "":
		c.add("server.publicURL", "has a path: the platform needs a host name of its own")
	}
	c.networks("server.trustedProxies", p.Server.TrustedProxies)
}

// webURL checks a URL without credentials, query and fragment, and returns it,
// or nil if it is empty or invalid. Errors do not quote it.
func (c *checker) webURL(option, text string, schemes ...string) *url.URL {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.Opaque != "" || !slices.Contains(schemes, u.Scheme):
		c.add(option, "is not a URL that starts with %s://", strings.Join(schemes, ":// or "))
	case u.User != nil:
		c.add(option, "has a user name or password in it: take it out")
	case u.RawQuery != "" || u.Fragment != "":
		c.add(option, "has a part after ? or #: take it out")
	default:
		return u
	}
	return nil
}

// database checks the storage. Errors do not quote the URL, which may contain a
// password.
func (c *checker) database(d *Database) {
	text := d.URL.Reveal()
	if text == "" {
		return
	}
	if text == secret.Redacted {
		c.add("database.url", "is the text that stands for a hidden URL in printed options: set the URL itself")
		return
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || !slices.Contains([]string{"sqlite", "postgres", "postgresql"}, u.Scheme):
		c.add("database.url", "is not a URL such as sqlite:///var/lib/slipway/platform.db or postgres://user:password@host/slipway")
	// sqlite://path would parse the first element as a host.
	case u.Scheme == "sqlite" && (u.Host != "" || len(u.Path) < 2):
		c.add("database.url", "has no absolute path: write sqlite:/// and the path, with three slashes")
	case u.Scheme != "sqlite" && d.SecretKeyFile == "":
		c.add("database.secretKeyFile", "is missing: PostgreSQL needs a key file that all replicas have, made for example with openssl rand -hex 32")
	}
}

// tunnel checks URL and domain of the tunnels. Tunnels carry credentials, so
// they need TLS except on loopback.
func (c *checker) tunnel(t *TunnelServer) {
	if t.Domain != "" && (!validSubdomain(t.Domain) || !strings.Contains(t.Domain, ".") && t.Domain != "localhost") {
		c.add("tunnel.domain", "is %s: write a DNS name in lower case, such as tunnels.example.com", quoted(t.Domain))
	}
	if u := c.webURL("tunnel.url", t.URL, "wss", "ws", "https", "http"); u != nil {
		if (u.Scheme == "ws" || u.Scheme == "http") && !loopbackHost(u.Hostname()) {
			c.add("tunnel.url", "is not encrypted: let it start with wss://")
		}
	}
}

// firstStart checks the first account and user. The email need not be
// deliverable: it is the name to sign in with.
func (c *checker) firstStart(f *FirstStart) {
	if strings.TrimSpace(f.Account) == "" || len(f.Account) > 100 {
		c.add("firstStart.account", "is %s: write a name with at most 100 characters", quoted(f.Account))
	}
	name, domain, found := strings.Cut(f.Email, "@")
	if !found || name == "" || domain == "" || strings.ContainsAny(f.Email, " \t\r\n<>") || strings.Contains(domain, "@") || len(f.Email) > 254 {
		c.add("firstStart.email", "is %s, which is not an email address", quoted(f.Email))
	}
}

// rights checks the settings of the policy. Its rules are parsed at the start.
func (c *checker) rights(r *Rights) {
	if r.MatchMode != "glob" && r.MatchMode != "regex" {
		c.add("rights.matchMode", "is %s: choose one of glob, regex", quoted(r.MatchMode))
	}
}

// oidc checks the identity provider. Its discovery document is read at runtime,
// so that a provider that is down does not prevent a start.
func (c *checker) oidc(o *OIDC) {
	const prefix = "oidc."
	if o.Issuer == "" {
		c.add(prefix+"issuer", "is missing: write the URL of the identity provider")
	}
	if u := c.webURL(prefix+"issuer", o.Issuer, "https", "http"); u != nil && u.Scheme == "http" && !loopbackHost(u.Hostname()) {
		c.add(prefix+"issuer", "is not encrypted: let it start with https://")
	}
	if o.ClientID == "" {
		c.add(prefix+"clientID", "is missing: register the platform with the identity provider")
	}
	if o.ClientSecret.Reveal() == secret.Redacted {
		c.add(prefix+"clientSecret", "is the text that stands for a hidden secret in printed options: set the secret itself")
	}
	for _, domain := range o.AllowedDomains {
		if !validSubdomain(domain) {
			c.add(prefix+"allowedDomains", "has %s, which is not a domain such as example.com", quoted(domain))
		}
	}
	// An identity provider may serve many organizations.
	if o.CreateUsers && len(o.AllowedDomains) == 0 {
		c.add(prefix+"createUsers", "needs allowedDomains: otherwise every user of the identity provider could sign in")
	}
	if (o.RoleClaim == "") != (len(o.AdminValues)+len(o.OperatorValues)+len(o.ViewerValues) == 0) {
		c.add(prefix+"roleClaim", "and adminValues, operatorValues or viewerValues belong together: give the claim and some of its values, or neither")
	}
	if _, err := permission.ParseRole(o.DefaultRole); err != nil {
		c.add(prefix+"defaultRole", "is %s: write one of %s", quoted(o.DefaultRole), strings.Join(permission.Roles(), ", "))
	}
}
