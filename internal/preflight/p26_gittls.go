package preflight

import (
	"cmp"
	"context"
	"errors"

	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/wire"
)

// gitCertificates describes how to make a runtime trust a Git server (R79).
const gitCertificates = `put the certificate of its CA into the ConfigMap argocd-tls-certs-cm of the runtime's namespace:
kubectl -n NAMESPACE create configmap argocd-tls-certs-cm --from-file=HOST=CA.pem`

// checkGitTLS is P26: the certificate of the Git server is valid and trusted,
// with the CAs configured for it.
func checkGitTLS(ctx context.Context, in *CheckContext, out *Report) {
	repository, err := wire.ParseSharedRepository(in.Git.Repository)
	if err != nil {
		out.skip("no Shared Configuration Repository is given, or P25 fails")
		return
	}
	// SSH and plain HTTP have no certificate.
	address, err := gitprovider.ParseAddress(repository.RepoURL)
	if err != nil || address.SSH || address.Plain {
		out.skip("its server is not reached by https")
		return
	}
	roots, err := in.gitRoots()
	if err != nil {
		out.fail("authorities for Git", err.Error(), "give a file with PEM certificates")
		return
	}
	port := cmp.Or(address.Port, "443")
	out.inspect("a TLS handshake with %s:%s", address.Host, port)
	chain, err := in.handshake(ctx, address.Host, port)
	var noTLS *noTLSError
	switch {
	case errors.As(err, &noTLS):
		out.fail(address.Host, "it does not speak TLS: "+describeError(err), "see whether the port is right")
		return
	case err != nil:
		out.fail(address.Host, "its certificate cannot be read: "+describeError(err), "see P27")
		return
	}
	// The fix is the same for every problem: the runtime must trust the CA.
	for _, problem := range evaluateChain(chain, address.Host, roots, in.Now()) {
		problem.Subject, problem.Fix = address.Host, gitCertificates+"\nand inspect it with: "+opensslLine(address.Host, port)
		out.add(problem)
	}
}
