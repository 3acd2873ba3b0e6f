package preflight

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
	"time"

	"slipway.dev/slipway/api/finding"
)

// expirySoon is the remaining lifetime of a certificate or token below which
// a warning is reported.
const expirySoon = 14 * 24 * time.Hour

// handshake returns the certificates that a server presents for a name. They
// are not verified here: evaluateChain reports all their problems.
func (in *CheckContext) handshake(ctx context.Context, host, port string) ([]*x509.Certificate, error) {
	conn, err := in.connect(ctx, host, port)
	if err != nil {
		return nil, err
	}
	// Verification is disabled to get the certificate even if it is invalid;
	// nothing is sent over the connection.
	client := tls.Client(conn, &tls.Config{ServerName: host, InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}) // #nosec G402: see above
	defer func() { _ = client.Close() }()                                                                             // nothing was sent
	bounded, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if err := client.HandshakeContext(bounded); err != nil {
		return nil, &noTLSError{err}
	}
	return client.ConnectionState().PeerCertificates, nil
}

// noTLSError reports a server that accepts connections but does not speak
// TLS.
type noTLSError struct{ error }

// Unwrap returns the error of the handshake.
func (e *noTLSError) Unwrap() error { return e.error }

// evaluateChain returns all problems of a certificate for a host: validity,
// name and trust, each independently and without a subject.
func evaluateChain(chain []*x509.Certificate, host string, roots *x509.CertPool, now time.Time) []finding.Finding {
	if len(chain) == 0 {
		return []finding.Finding{{Severity: finding.Error, Message: "the server presents no certificate", Fix: "configure one in the controller"}}
	}
	// Only the leaf is checked for validity and names; the chain is checked
	// by untrusted.
	leaf := chain[0]
	var problems []finding.Finding
	fail := func(message, fix string) {
		problems = append(problems, finding.Finding{Severity: finding.Error, Message: message, Fix: fix})
	}
	switch {
	case now.After(leaf.NotAfter):
		fail("the certificate has expired on "+leaf.NotAfter.UTC().Format(time.RFC3339), "renew it")
	case now.Before(leaf.NotBefore):
		fail("the certificate is valid from "+leaf.NotBefore.UTC().Format(time.RFC3339)+" on only", "check the clocks, or issue it again")
	case leaf.NotAfter.Sub(now) < expirySoon:
		problems = append(problems, finding.Finding{
			Severity: finding.Warning, Fix: "renew it soon",
			Message: fmt.Sprintf("the certificate expires in %s, on %s", finding.Count(int(leaf.NotAfter.Sub(now).Hours()/24), "day", "days"), leaf.NotAfter.UTC().Format(time.RFC3339)),
		})
	}
	if leaf.VerifyHostname(host) != nil {
		fail(fmt.Sprintf("the certificate is not for %s but for %s%s", host, namesOf(leaf), defaultOf(leaf)), "use one with the name "+host)
	}
	if message, fix := untrusted(chain, roots); message != "" {
		fail(message, fix)
	}
	return problems
}

// untrusted returns why a chain is not trusted; empty if it is. The validity
// period is checked elsewhere, so it verifies at a time when the leaf was
// valid.
func untrusted(chain []*x509.Certificate, roots *x509.CertPool) (message, fix string) {
	leaf := chain[0]
	// Everything after the leaf counts as intermediate, in any order.
	between := x509.NewCertPool()
	for _, one := range chain[1:] {
		between.AddCert(one)
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between, CurrentTime: leaf.NotAfter.Add(-time.Second), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	switch {
	case err == nil:
		return "", ""
	// Distinct messages, because the fixes differ: a CA certificate, or the
	// complete chain.
	case bytes.Equal(leaf.RawIssuer, leaf.RawSubject):
		return "the certificate is self-signed and not trusted" + defaultOf(leaf), trustHint()
	case len(chain) == 1:
		return "the CA " + leaf.Issuer.String() + " is not trusted, or the server omits intermediate certificates: " + err.Error(),
			"put the whole chain into the Secret, the leaf first"
	}
	return "the certificate is not signed by a trusted CA: " + err.Error(), trustHint()
}

// trustHint describes what to do about a CA that is not trusted: the Ingress
// gets another certificate, or both the platform and this command trust the CA.
func trustHint() string {
	return "use a certificate of a trusted CA: name its Secret in global.runtime.ingress.tls; or have the platform trust the CA with runtimes.caSecretKeyRef of its chart, and this check with --ca-file"
}

// defaultOf recognizes the default certificates of controllers.
func defaultOf(leaf *x509.Certificate) string {
	switch leaf.Subject.CommonName {
	case "Kubernetes Ingress Controller Fake Certificate", "TRAEFIK DEFAULT CERT":
		return " (it is the controller's default certificate)"
	}
	return ""
}

// namesOf returns the names of a certificate.
func namesOf(leaf *x509.Certificate) string {
	// Common names are ignored by clients, so only the alternative names
	// count.
	names := append([]string{}, leaf.DNSNames...)
	for _, address := range leaf.IPAddresses {
		names = append(names, address.String())
	}
	if len(names) == 0 {
		return "no name (its common name is " + strings.TrimSpace(leaf.Subject.CommonName) + ")"
	}
	return shorten(names)
}
