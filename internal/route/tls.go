package route

import (
	"crypto/tls"
	"slices"

	"slipway.dev/slipway/api/refusal"
)

// TLSOptions are the conditions of the handshakes for some hosts. They hold
// for their hosts on every entry point and in every protocol: a host whose options
// are refused is not served, and a request on a connection that was made for other
// options gets 421.
type TLSOptions struct {
	ID TLSOptionsID `json:"id"`
	// Hosts are names or wildcards, as in Rule.Host. Options without hosts are
	// those of every host that has none of its own; there can be one such.
	Hosts []string `json:"hosts,omitempty"`
	// MinVersion and MaxVersion are 1.0, 1.1, 1.2 or 1.3. Without them they are
	// 1.2 and the newest.
	MinVersion TLSVersion `json:"minVersion,omitempty"`
	MaxVersion TLSVersion `json:"maxVersion,omitempty"`
	// CipherSuites are names such as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, for
	// TLS 1.2 and older; none means those that are safe.
	CipherSuites []string `json:"cipherSuites,omitempty"`
	// ClientAuth is the demand on client certificates; none when it is empty.
	ClientAuth ClientAuth `json:"clientAuth,omitempty"`
	// ClientAuthorities issue the certificates of clients.
	ClientAuthorities []AuthorityID `json:"clientAuthorities,omitempty"`
	// ALPN are the protocols, the best first; none means h2 and http/1.1.
	ALPN []string `json:"alpn,omitempty"`
	// SNIStrict refuses names without a certificate, instead of sending the
	// default one.
	SNIStrict bool `json:"sniStrict,omitempty"`
	// Refused takes the hosts down with 503: their options are not valid, and
	// serving them without would be unsafe. Nothing else is set then.
	Refused bool `json:"refused,omitempty"`
}

// TLSVersion is a version of TLS.
type TLSVersion string

// tlsVersions has the number of each version that can be named.
var tlsVersions = map[TLSVersion]uint16{
	"1.0": tls.VersionTLS10, "1.1": tls.VersionTLS11, "1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13,
}

// Number is the version as crypto/tls has it; 0 when it is empty or unknown.
func (v TLSVersion) Number() uint16 { return tlsVersions[v] }

// ClientAuth is the demand on client certificates.
type ClientAuth string

// The demands on clients. Only a verified certificate proves an identity.
const (
	// ClientAuthNone requests none.
	ClientAuthNone ClientAuth = "none"
	// ClientAuthRequest requests one and accepts any, or none.
	ClientAuthRequest ClientAuth = "request"
	// ClientAuthRequireAny accepts any, but not none.
	ClientAuthRequireAny ClientAuth = "requireAny"
	// ClientAuthVerifyIfGiven accepts none, or one that an authority has issued.
	ClientAuthVerifyIfGiven ClientAuth = "verifyIfGiven"
	// ClientAuthVerify accepts only one that an authority has issued.
	ClientAuthVerify ClientAuth = "verify"
)

// clientAuths has the meaning of each demand.
var clientAuths = map[ClientAuth]tls.ClientAuthType{
	"": tls.NoClientCert, ClientAuthNone: tls.NoClientCert,
	ClientAuthRequest: tls.RequestClientCert, ClientAuthRequireAny: tls.RequireAnyClientCert,
	ClientAuthVerifyIfGiven: tls.VerifyClientCertIfGiven, ClientAuthVerify: tls.RequireAndVerifyClientCert,
}

// Type is the demand as crypto/tls has it. An unknown one is the strictest.
func (a ClientAuth) Type() tls.ClientAuthType {
	if known, ok := clientAuths[a]; ok {
		return known
	}
	return tls.RequireAndVerifyClientCert
}

// CipherSuiteNumber is the number of a cipher suite that options can name.
func CipherSuiteNumber(name string) (uint16, bool) {
	for _, suites := range [][]*tls.CipherSuite{tls.CipherSuites(), tls.InsecureCipherSuites()} {
		for _, suite := range suites {
			// Those of TLS 1.3 cannot be chosen.
			if suite.Name == name && slices.Contains(suite.SupportedVersions, tls.VersionTLS12) {
				return suite.ID, true
			}
		}
	}
	return 0, false
}

// Validate returns the problems of the options on their own.
func (o *TLSOptions) Validate() []Problem {
	r := report{subject: o.ID}
	o.check(&r)
	return r.problems
}

func (o *TLSOptions) check(r *report) {
	checkObjectID(r, CertificateID(o.ID))
	checkEach(r, "hosts", o.Hosts, checkHost)
	if o.Refused && !o.bare() {
		r.add("refused", refusal.Conflict, "options that are refused have nothing but hosts; leave the rest out")
	}
	o.checkVersions(r)
	for i, name := range o.CipherSuites {
		if _, ok := CipherSuiteNumber(name); !ok {
			r.addItem("cipherSuites", i, refusal.Invalid, "%s is no cipher suite that can be chosen; those of TLS 1.3 are always on", shorten(name))
		}
	}
	if _, ok := clientAuths[o.ClientAuth]; !ok {
		r.add("clientAuth", refusal.Invalid, "%s is none of none, request, requireAny, verifyIfGiven, verify", shorten(string(o.ClientAuth)))
	}
	verifies := o.ClientAuth.Type() >= tls.VerifyClientCertIfGiven
	switch {
	case verifies && len(o.ClientAuthorities) == 0:
		r.add("clientAuthorities", refusal.Required, "client certificates are to be verified, but there is no authority; name one")
	case !verifies && len(o.ClientAuthorities) > 0:
		r.add("clientAuthorities", refusal.Conflict, "client certificates are not verified; set clientAuth to verify, or leave the authorities out")
	}
	for i, protocol := range o.ALPN {
		if len(protocol) > 255 {
			r.addItem("alpn", i, refusal.Invalid, "%s is too long for the name of a protocol; use h2 or http/1.1", shorten(protocol))
		}
	}
	checkTexts(r, "alpn", o.ALPN)
}

// bare reports whether there is nothing but hosts.
func (o *TLSOptions) bare() bool {
	return o.MinVersion == "" && o.MaxVersion == "" && o.ClientAuth == "" && !o.SNIStrict &&
		len(o.CipherSuites)+len(o.ClientAuthorities)+len(o.ALPN) == 0
}

// refusedOptions is the identity of refused options whose own cannot be used.
var refusedOptions = TLSOptionsID{Name: "refused"}

// closeTLSOptions replaces options with a problem by refusals. They are not left
// out, because their hosts would then be served without them.
func closeTLSOptions(list []*TLSOptions, bad map[Identity]bool) []*TLSOptions {
	kept := make([]*TLSOptions, 0, len(list))
	closed := map[TLSOptionsID]*TLSOptions{}
	forAll := false
	for _, options := range list {
		if !bad[options.ID] {
			kept = append(kept, options)
			forAll = forAll || len(options.Hosts) == 0
		}
	}
	for _, options := range list {
		if !bad[options.ID] {
			continue
		}
		id := options.ID
		if !validName(id.Name) || id.Namespace != "" && !validName(id.Namespace) {
			id = refusedOptions
		}
		hosts := slices.DeleteFunc(slices.Clone(options.Hosts), func(host string) bool { return !soundHost(host) })
		if len(hosts) == 0 && (len(options.Hosts) > 0 || forAll) {
			continue // no request can have these names, or other options are for all hosts
		}
		forAll = forAll || len(hosts) == 0
		before := closed[id]
		switch {
		case before == nil:
			closed[id] = &TLSOptions{ID: id, Hosts: hosts, Refused: true}
			kept = append(kept, closed[id])
		case len(before.Hosts) > 0 && len(hosts) > 0:
			before.Hosts = append(before.Hosts, hosts...)
		default:
			before.Hosts = nil // for all hosts
		}
	}
	return kept
}

// soundHost reports whether a host is valid.
func soundHost(host string) bool {
	r := report{subject: WholeTable{}}
	checkHost(&r, "", host)
	return len(r.problems) == 0
}

func (o *TLSOptions) checkVersions(r *report) {
	check := func(field string, version TLSVersion) {
		if version != "" && version.Number() == 0 {
			r.add(field, refusal.Invalid, "%s is none of 1.0, 1.1, 1.2, 1.3", shorten(string(version)))
		}
	}
	check("minVersion", o.MinVersion)
	check("maxVersion", o.MaxVersion)
	least := o.MinVersion.Number()
	if o.MinVersion == "" {
		least = tls.VersionTLS12
	}
	if most := o.MaxVersion.Number(); most != 0 && least > most {
		r.add("minVersion", refusal.Conflict, "it is above maxVersion; change one of them")
	}
}
