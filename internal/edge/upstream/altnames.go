package upstream

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// verifyAltNames verifies the chain of an endpoint, and that its certificate has one of
// the names: host names, or URIs such as those of SPIFFE. It runs for resumed sessions
// too.
func verifyAltNames(state tls.ConnectionState, roots *x509.CertPool, names string) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the endpoint has no certificate")
	}
	leaf := state.PeerCertificates[0]
	intermediates := x509.NewCertPool()
	for _, certificate := range state.PeerCertificates[1:] {
		intermediates.AddCert(certificate)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates}); err != nil {
		return err
	}
	for name := range strings.FieldsSeq(names) {
		if hasAltName(leaf, name) {
			return nil
		}
	}
	return fmt.Errorf("the certificate is for none of %s", names)
}

// hasAltName reports whether a certificate is for a host name, which may be a wildcard, or
// for a URI.
func hasAltName(certificate *x509.Certificate, name string) bool {
	if strings.Contains(name, ":") {
		return slices.ContainsFunc(certificate.URIs, func(uri *url.URL) bool { return uri.String() == name })
	}
	same := func(own string) bool { return strings.EqualFold(own, name) }
	return slices.ContainsFunc(certificate.DNSNames, same) || certificate.VerifyHostname(name) == nil
}
