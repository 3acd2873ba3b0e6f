package preflight

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
	"time"
)

// expirySoon is when the end of a certificate or token is worth a warning.
const expirySoon = 14 * 24 * time.Hour

// chainProblem is what is wrong with a certificate.
type chainProblem struct {
	severity Severity
	message  string
	fix      string
}

// handshake is the certificates that a server shows for a name. They are not
// verified: judgeChain says what is wrong with them, all of it.
func (in *Inquiry) handshake(ctx context.Context, host, port string) ([]*x509.Certificate, error) {
	conn, err := in.connect(ctx, host, port)
	if err != nil {
		return nil, err
	}
	client := tls.Client(conn, &tls.Config{ServerName: host, InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}) // #nosec G402: see above
	defer func() { _ = client.Close() }()                                                                             // there is nothing to lose
	bounded, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if err := client.HandshakeContext(bounded); err != nil {
		return nil, &noTLSError{err}
	}
	return client.ConnectionState().PeerCertificates, nil
}

// noTLSError is a server that is there and does not speak TLS with us.
type noTLSError struct{ error }

func (e *noTLSError) Unwrap() error { return e.error }

// judgeChain says what is wrong with a certificate for a host: its time, its name
// and who vouches for it, each by itself.
func judgeChain(chain []*x509.Certificate, host string, roots *x509.CertPool, now time.Time) []chainProblem {
	if len(chain) == 0 {
		return []chainProblem{{SeverityError, "the server shows no certificate", "give the controller one"}}
	}
	leaf := chain[0]
	var problems []chainProblem
	fail := func(message, fix string) { problems = append(problems, chainProblem{SeverityError, message, fix}) }
	switch {
	case now.After(leaf.NotAfter):
		fail("the certificate has expired on "+leaf.NotAfter.UTC().Format(time.RFC3339), "renew it")
	case now.Before(leaf.NotBefore):
		fail("the certificate is good from "+leaf.NotBefore.UTC().Format(time.RFC3339)+" on only", "see whether the clocks are right, or issue it again")
	case leaf.NotAfter.Sub(now) < expirySoon:
		problems = append(problems, chainProblem{SeverityWarning,
			fmt.Sprintf("the certificate expires in %d days, on %s", int(leaf.NotAfter.Sub(now).Hours()/24), leaf.NotAfter.UTC().Format(time.RFC3339)), "renew it soon"})
	}
	if leaf.VerifyHostname(host) != nil {
		fail(fmt.Sprintf("the certificate is not for %s but for %s%s", host, namesOf(leaf), defaultOf(leaf)), "use one with the name "+host)
	}
	if message, fix := distrust(chain, roots); message != "" {
		fail(message, fix)
	}
	return problems
}

// distrust says why nobody vouches for a chain; empty when somebody does. Time is
// judged elsewhere, so it is asked for a moment at which the leaf was good.
func distrust(chain []*x509.Certificate, roots *x509.CertPool) (message, fix string) {
	leaf := chain[0]
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
	case bytes.Equal(leaf.RawIssuer, leaf.RawSubject):
		return "the certificate is self-signed: nobody vouches for it" + defaultOf(leaf), "get one of an authority, by ACME for instance, or have the platform trust it (caCerts)"
	case len(chain) == 1:
		return "the authority " + leaf.Issuer.String() + " is not known, or the server leaves out the certificates between: " + err.Error(),
			"put the whole chain into the Secret, the leaf first"
	}
	return "nobody who is trusted vouches for the certificate: " + err.Error(), "get one of an authority that is trusted, or have the platform trust it (caCerts)"
}

// defaultOf tells the certificates that controllers make for themselves.
func defaultOf(leaf *x509.Certificate) string {
	switch leaf.Subject.CommonName {
	case "Kubernetes Ingress Controller Fake Certificate", "TRAEFIK DEFAULT CERT":
		return " (it is the one that the controller makes when it has none)"
	}
	return ""
}

// namesOf is who a certificate is for.
func namesOf(leaf *x509.Certificate) string {
	names := append([]string{}, leaf.DNSNames...)
	for _, address := range leaf.IPAddresses {
		names = append(names, address.String())
	}
	if len(names) == 0 {
		return "no name (its common name is " + strings.TrimSpace(leaf.Subject.CommonName) + ")"
	}
	return shorten(names)
}
