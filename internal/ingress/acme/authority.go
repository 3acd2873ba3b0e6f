package acme

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/mholt/acmez/v3"
	"github.com/mholt/acmez/v3/acme"

	"slipway.dev/slipway/internal/ingress/acme/dns01"
)

// authority orders certificates from one ACME server. It is not safe for
// concurrent use: one issuerWorker owns it.
type authority struct {
	manager   *Manager
	name      string
	resolver  Resolver
	transport *transport
	// account signs the orders; nil before it is loaded.
	account *acme.Account
}

// newAuthority returns the client of one resolver. It sends nothing.
func newAuthority(m *Manager, name string, resolver Resolver) *authority {
	return &authority{manager: m, name: name, resolver: resolver, transport: newTransport(resolver.Roots)}
}

// close closes idle connections to the authority.
func (a *authority) close() { a.transport.base.CloseIdleConnections() }

// client returns an ACME client. It fetches the directory first: the library
// fetches it while holding a lock that all authorities share, and a slow server
// must not hold up the others.
func (a *authority) client(ctx context.Context) (*acmez.Client, error) {
	if err := a.transport.prefetch(ctx, a.resolver.Directory); err != nil {
		return nil, fmt.Errorf("the authority's directory: %w", err)
	}
	return &acmez.Client{
		Client: &acme.Client{
			Directory: a.resolver.Directory, UserAgent: a.manager.options.Agent,
			HTTPClient: &http.Client{Transport: a.transport, Timeout: exchangeTimeout},
		},
		ChallengeSolvers: a.solvers(),
	}, nil
}

// solvers returns the solver of the one type of challenges that is configured.
func (a *authority) solvers() map[string]acmez.Solver {
	if a.resolver.DNS != nil {
		return map[string]acmez.Solver{acme.ChallengeTypeDNS01: &recordSolver{authority: a, records: map[string]dns01.Record{}}}
	}
	return map[string]acmez.Solver{acme.ChallengeTypeHTTP01: &challengeSolver{manager: a.manager, entryPoint: a.resolver.EntryPoint}}
}

// obtain implements issuer. An account that the authority has lost is registered
// again, once, and a Retry-After becomes part of the error.
func (a *authority) obtain(ctx context.Context, hosts []string, replaces *x509.Certificate) (*issued, error) {
	a.transport.reset()
	a.removeLeftRecords(ctx)
	fresh, err := a.tryObtain(ctx, hosts, replaces)
	if problem := (acme.Problem{}); errors.As(err, &problem) && problem.Type == acme.ProblemTypeAccountDoesNotExist {
		// The authority has lost the account, not we.
		a.account = nil
		if err = a.clearRegistration(ctx); err == nil {
			fresh, err = a.tryObtain(ctx, hosts, replaces)
		}
	}
	if err == nil {
		return fresh, nil
	}
	if at, busy := a.transport.retryAfter(); !at.IsZero() {
		err = &retryAfterError{error: err, at: at, busy: busy}
	}
	return nil, err
}

// tryObtain places one order. Each order has a new key, so that a leaked one is
// useless after the next renewal.
func (a *authority) tryObtain(ctx context.Context, hosts []string, replaces *x509.Certificate) (*issued, error) {
	client, err := a.client(ctx)
	if err != nil {
		return nil, err
	}
	account, err := a.register(ctx, client.Client)
	if err != nil {
		return nil, fmt.Errorf("the account of the resolver: %w", err)
	}
	key, err := newKey(a.resolver.KeyType)
	if err != nil {
		return nil, err
	}
	request, err := acmez.NewCSR(key, hosts)
	if err != nil {
		return nil, err
	}
	order, err := acmez.OrderParametersFromCSR(account, request)
	if err != nil {
		return nil, err
	}
	directory, err := client.GetDirectory(ctx)
	if err != nil {
		return nil, err
	}
	// Replaces exempts a renewal from rate limits (RFC 9773, section 5).
	if directory.RenewalInfo != "" {
		order.Replaces = replaces
	}
	chains, err := client.ObtainCertificate(ctx, order)
	if err != nil {
		return nil, err
	}
	return a.choose(chains, key)
}

// choose returns the preferred chain, or else the first, which is the default of
// the authority (RFC 8555, section 7.4.2).
func (a *authority) choose(chains []acme.Certificate, key crypto.Signer) (*issued, error) {
	if len(chains) == 0 {
		return nil, errors.New("the authority returned no certificate")
	}
	chosen := chains[0].ChainPEM
	for _, chain := range chains {
		if a.resolver.PreferredChain != "" && rootOf(chain.ChainPEM) == a.resolver.PreferredChain {
			chosen = chain.ChainPEM
			break
		}
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	fresh := &issued{chain: chosen, key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})}
	// The chain is checked with its key here, so that an unusable certificate
	// is never stored over a working one.
	pair, err := tls.X509KeyPair(fresh.chain, fresh.key)
	if err != nil {
		return nil, fmt.Errorf("the authority returned a certificate that cannot be used: %w", err)
	}
	fresh.leaf = pair.Leaf
	return fresh, nil
}

// rootOf returns the name of the root that signed the last certificate of a
// chain. The root itself is not part of the chain.
func rootOf(chain []byte) string {
	name := ""
	for block, rest := pem.Decode(chain); block != nil; block, rest = pem.Decode(rest) {
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
			name = certificate.Issuer.CommonName
		}
	}
	return name
}

// renewalInfo implements issuer.
func (a *authority) renewalInfo(ctx context.Context, leaf *x509.Certificate) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	client, err := a.client(ctx)
	if err != nil {
		return time.Time{}, err
	}
	info, err := client.GetRenewalInfo(ctx, leaf)
	if errors.Is(err, acme.ErrUnsupported) {
		return time.Time{}, errNoRenewalInfo
	}
	return info.SelectedTime, err
}

// newKey generates a key of a configured type; empty means EC256.
func newKey(kind string) (crypto.Signer, error) {
	switch kind {
	case "", "EC256":
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "EC384":
		return ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "RSA2048":
		return rsa.GenerateKey(rand.Reader, 2048)
	case "RSA4096":
		return rsa.GenerateKey(rand.Reader, 4096)
	default:
		return nil, fmt.Errorf("unknown key type %q", kind)
	}
}
