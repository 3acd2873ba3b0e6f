package preflight

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/access/mode"
)

// checkTLSCertificate is P16: the certificate that a handshake with the host
// returns, by chain, name and expiry (R84), and the Secrets of the Ingress.
// Before the installation it is sufficient that the Ingress brings a
// certificate: a Secret that is valid or still to come, or an issuer. The
// controller serves it only after the Ingress exists.
func checkTLSCertificate(ctx context.Context, in *CheckContext, out *Report) {
	address := in.externalURL(out)
	if address == nil {
		return
	}
	// Without TLS there is no certificate to check.
	if address.Scheme == "http" {
		out.inspect("the address %s", address)
		out.warn(address.Host, "the runtime is reached without TLS: tokens of the platform are sent unencrypted", "set the protocol to https")
		return
	}
	// Secrets are checked first: their result decides the severity of the
	// handshake's problems.
	coming := in.evaluateSecrets(ctx, address.Hostname(), out) || in.issuerNamed(out)
	in.evaluateEnterpriseTLS(ctx, address.Hostname(), out)
	// The handshake shows what clients get, regardless of the objects in the
	// cluster contain.
	out.inspect("a TLS handshake with %s:%s", address.Hostname(), portOf(address))
	chain, err := in.handshake(ctx, address.Hostname(), portOf(address))
	var noTLS *noTLSError
	switch {
	case errors.As(err, &noTLS):
		out.pending(address.Host, "it does not speak TLS: "+describeError(err), "give the controller a certificate for the host: "+opensslLine(address.Hostname(), portOf(address)))
		return
	case err != nil:
		out.pending(address.Host, "its certificate cannot be read: "+describeError(err), "see P17 and P21")
		return
	}
	for _, problem := range evaluateChain(chain, address.Hostname(), in.Roots, in.Now()) {
		// The controller still presents its default certificate, which that of
		// the Ingress will replace.
		if coming && in.Stage == Before {
			problem.Severity = finding.Warning
		}
		problem.Subject = address.Host
		problem.Fix += "; inspect it with: " + opensslLine(address.Hostname(), portOf(address))
		out.add(problem)
	}
}

// evaluateSecrets checks the Secrets of the Ingress and reports whether one
// for the host is valid, or still to come.
func (in *CheckContext) evaluateSecrets(ctx context.Context, host string, out *Report) bool {
	if in.requestedMode() != mode.Ingress {
		return false
	}
	good := false
	for _, one := range in.Settings.Ingress.TLS {
		// An entry without hosts applies to all hosts of the Ingress.
		if one.SecretName == "" || len(one.Hosts) > 0 && !slices.Contains(one.Hosts, host) {
			continue
		}
		subject := named("Secret", in.Settings.Namespace, one.SecretName)
		out.inspect("%s", subject)
		found, err := in.Cluster.Client.CoreV1().Secrets(in.Settings.Namespace).Get(ctx, one.SecretName, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			good = true
			out.pending(subject, "the Secret of the certificate does not exist", fmt.Sprintf("kubectl -n %s create secret tls %s --cert=CHAIN --key=KEY", in.Settings.Namespace, one.SecretName))
		case err != nil:
			out.readError("secrets", err)
		default:
			problems := evaluateChain(chainOf(found), host, in.Roots, in.Now())
			for _, problem := range problems {
				problem.Subject = subject
				out.add(problem)
			}
			good = good || len(problems) == 0
		}
	}
	return good
}

// issuerNamed reports whether an annotation of the Ingress names an issuer that
// obtains the certificate when the Ingress exists: cert-manager, or an ACME
// resolver of the controller.
func (in *CheckContext) issuerNamed(out *Report) bool {
	for _, name := range []string{
		"cert-manager.io/cluster-issuer", "cert-manager.io/issuer", "kubernetes.io/tls-acme", "traefik.ingress.kubernetes.io/router.tls.certresolver",
	} {
		if value := in.Settings.Ingress.Annotations[name]; in.requestedMode() == mode.Ingress && value != "" {
			out.inspect("the annotation %s: %s, which obtains a certificate", name, value)
			return true
		}
	}
	return false
}

// chainOf returns the certificates of a Secret; invalid blocks are skipped.
func chainOf(secret *corev1.Secret) []*x509.Certificate {
	var chain []*x509.Certificate
	// PEM files often contain keys or comments between certificates.
	for rest := secret.Data[corev1.TLSCertKey]; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return chain
		}
		if one, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" {
			chain = append(chain, one)
		}
	}
}
