package tlsstore

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The protocols that are offered unless the options set others, and the one
// that only the challenge hook may use (RFC 8737).
const (
	protoHTTP2  = "h2"
	protoHTTP11 = "http/1.1"
	protoACME   = "acme-tls/1"
)

const (
	maxClientCAs = 1 << 20
	maxProtocols = 16
)

// Options are the conditions of a handshake. The zero value is safe: TLS 1.2 or
// 1.3, Go's choice of cipher suites, no client certificates, HTTP/2 and
// HTTP/1.1, and the default certificate for names without one.
type Options struct {
	// MinVersion and MaxVersion are versions of crypto/tls. 0 means TLS 1.2 and
	// the newest; older ones are used only when they are set.
	MinVersion uint16
	MaxVersion uint16
	// CipherSuites are for TLS 1.2 and older; the order does not matter. Empty
	// means Go's choice.
	CipherSuites []uint16
	// ClientAuth is whether a client certificate is requested, required and
	// verified. Verification needs ClientCAs: the system's roots would admit
	// every owner of a domain.
	ClientAuth tls.ClientAuthType
	// ClientCAs are PEM certificates that vouch for clients.
	ClientCAs string
	// ALPN are the protocols in the order we like them. Empty means h2 and
	// http/1.1.
	ALPN []string
	// SNIStrict refuses the handshake when no certificate is made for the name,
	// instead of showing the default one.
	SNIStrict bool
}

// HostOptions are the options of some hosts.
type HostOptions struct {
	// ID is the object that sets the options, for problems.
	ID ID
	// Owner is the namespace of that object, as in [Certificate.Owner].
	Owner string
	// Hosts are names and wildcards. A wildcard's options hold for every name
	// below it that has none of its own.
	Hosts   []string
	Options Options
}

// OptionsID identifies options by their content: equal options have the same
// one on every replica, before and after a restart.
type OptionsID digest

// String is the start of the identity, for logs.
func (id OptionsID) String() string { return hex.EncodeToString(id[:6]) }

// optionSet is options that were checked, with what a tls.Config needs.
type optionSet struct {
	id      OptionsID
	number  int // place in Index.sets
	options Options
	pool    *x509.CertPool
	// refused marks invalid options. The host is not served, and handshakes for
	// it use the base set.
	refused bool
}

// withDefaults returns the canonical form of options, so that equal ones have
// the same identity.
func (o Options) withDefaults() Options {
	o.MinVersion = cmp.Or(o.MinVersion, tls.VersionTLS12)
	o.MaxVersion = cmp.Or(o.MaxVersion, tls.VersionTLS13)
	o.CipherSuites = slices.Clone(o.CipherSuites)
	slices.Sort(o.CipherSuites)
	o.CipherSuites = slices.Compact(o.CipherSuites)
	if len(o.ALPN) == 0 {
		o.ALPN = []string{protoHTTP2, protoHTTP11}
	}
	return o
}

// identify hashes every field. A field that is added to Options is added here,
// and a test holds the two together.
func (o Options) identify(d *digester) OptionsID {
	parts := make([]string, 0, 8+len(o.CipherSuites)+len(o.ALPN))
	number := func(n int) { parts = append(parts, strconv.Itoa(n)) }
	number(int(o.MinVersion))
	number(int(o.MaxVersion))
	number(len(o.CipherSuites))
	for _, suite := range o.CipherSuites {
		number(int(suite))
	}
	number(int(o.ClientAuth))
	parts = append(parts, o.ClientCAs)
	number(len(o.ALPN))
	parts = append(parts, o.ALPN...)
	parts = append(parts, strconv.FormatBool(o.SNIStrict))
	return OptionsID(d.sum(parts...))
}

// newOptionSet checks options that already have their defaults.
func newOptionSet(o Options, id OptionsID) (*optionSet, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	set := &optionSet{id: id, options: o}
	if o.ClientCAs == "" {
		return set, nil
	}
	pool, err := parseCAs(o.ClientCAs)
	if err != nil {
		return nil, err
	}
	set.pool = pool
	return set, nil
}

func (o Options) check() error {
	if !knownVersion(o.MinVersion) || !knownVersion(o.MaxVersion) {
		return fmt.Errorf("TLS versions 0x%04x to 0x%04x are not known; use TLS 1.0 to 1.3", o.MinVersion, o.MaxVersion)
	}
	if o.MinVersion > o.MaxVersion {
		return fmt.Errorf("the lowest version %s is above the highest, %s; change one of them", tls.VersionName(o.MinVersion), tls.VersionName(o.MaxVersion))
	}
	for _, suite := range o.CipherSuites {
		if !knownSuite(suite) {
			return fmt.Errorf("cipher suite 0x%04x is not known or cannot be chosen; suites of TLS 1.3 are always on", suite)
		}
	}
	if o.ClientAuth < tls.NoClientCert || o.ClientAuth > tls.RequireAndVerifyClientCert {
		return fmt.Errorf("client authentication %d is not known", o.ClientAuth)
	}
	verifies := o.ClientAuth >= tls.VerifyClientCertIfGiven
	if verifies && o.ClientCAs == "" {
		return errors.New("client certificates are to be verified, but there is no certificate authority; give clientCAs")
	}
	if !verifies && o.ClientCAs != "" {
		return errors.New("clientCAs are given, but client certificates are not verified; set clientAuth, or remove clientCAs")
	}
	if len(o.ALPN) > maxProtocols {
		return fmt.Errorf("there are %d ALPN protocols, more than %d", len(o.ALPN), maxProtocols)
	}
	for _, proto := range o.ALPN {
		if proto == "" || len(proto) > 255 || proto == protoACME {
			return fmt.Errorf("ALPN protocol %q cannot be offered; remove it", proto)
		}
	}
	return nil
}

func knownVersion(v uint16) bool { return tls.VersionTLS10 <= v && v <= tls.VersionTLS13 }

// knownSuite accepts weak suites: an operator who lists one by name wants it.
func knownSuite(id uint16) bool {
	for _, suites := range [][]*tls.CipherSuite{tls.CipherSuites(), tls.InsecureCipherSuites()} {
		for _, suite := range suites {
			if suite.ID == id {
				return slices.ContainsFunc(suite.SupportedVersions, func(v uint16) bool { return v < tls.VersionTLS13 })
			}
		}
	}
	return false
}

// parseCAs reads a bundle. Unlike CertPool.AppendCertsFromPEM it does not pass
// over what it cannot read: a bundle that is half there locks people out.
func parseCAs(bundle string) (*x509.CertPool, error) {
	if len(bundle) > maxClientCAs {
		return nil, fmt.Errorf("clientCAs have %d bytes, more than %d", len(bundle), maxClientCAs)
	}
	pool, count, rest := x509.NewCertPool(), 0, []byte(bundle)
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("clientCAs hold a PEM block of type %q; leave only certificates", block.Type)
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d of clientCAs cannot be read (%w); remove or replace it", count+1, err)
		}
		pool.AddCert(certificate)
		count++
	}
	if count == 0 || strings.Contains(string(rest), "-----BEGIN") {
		return nil, fmt.Errorf("clientCAs cannot be read as PEM after %d certificates; give a bundle of PEM certificates", count)
	}
	return pool, nil
}
