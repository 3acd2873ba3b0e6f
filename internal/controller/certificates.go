package controller

import (
	"context"
	"crypto/x509"
	"fmt"
	"os"
	"sync"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/ingress/acme"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// homeOf returns the namespace of ACME accounts and challenges, empty if no
// resolver is configured: the edge then needs no permission to write Secrets.
func homeOf(options *config.Edge, namespace string) string {
	if len(options.CertificatesResolvers) == 0 {
		return ""
	}
	return namespace
}

// newFetcher returns the certificate manager, or nil without a resolver. It
// sends no request: accounts are registered by the leader.
func (p *ingressProvider) newFetcher(parts Parts) (*acme.Manager, error) {
	if len(p.options.CertificatesResolvers) == 0 {
		return nil, nil
	}
	resolvers := map[string]acme.Resolver{}
	for name, given := range p.options.CertificatesResolvers {
		roots, err := authorityRoots(given.ACME.CACertificate)
		if err != nil {
			return nil, fmt.Errorf("certificatesResolvers.%s.acme.caCertificate: %w", name, err)
		}
		resolvers[name] = acme.Resolver{
			Directory: given.ACME.CAServer, Email: given.ACME.Email, Roots: roots, KeyType: given.ACME.KeyType,
			BindingID: given.ACME.EAB.KID, BindingKey: given.ACME.EAB.HMACEncoded,
			PreferredChain: given.ACME.PreferredChain, EntryPoint: given.ACME.HTTPChallenge.EntryPoint,
		}
	}
	k := p.options.Providers.KubernetesIngress
	// Owner separates edges of different IngressClasses in one namespace, as
	// the Lease does.
	return acme.New(p.cluster, acme.Options{
		Resolvers: resolvers, Namespaces: k.Namespaces,
		Owner: p.cluster.Namespace + "/" + leaseName(k.IngressClass), Agent: "slipway/" + parts.version,
		// Failures reach the status of the Ingress that requested the
		// certificate.
		Report: func(ingress snapshot.Ref, name string, fault *refusal.Refusal) {
			p.writer.SetFetchFailure(ingress, name, fault)
		},
		Metrics: acme.NewMetrics(parts.metrics.For("acme")), Log: p.log,
	}), nil
}

// lead runs while this replica is the leader and returns when ctx ends. Only
// the leader orders certificates, so that replicas do not exhaust the rate
// limits of the CA; the others read them from Secrets.
func (p *ingressProvider) lead(ctx context.Context) {
	var leading sync.WaitGroup
	if p.fetcher != nil {
		leading.Go(func() { p.fetcher.Lead(ctx) })
	}
	if p.gateways != nil {
		leading.Go(func() { p.gateways.Lead(ctx) })
	}
	leading.Wait()
}

// authorityRoots reads CA certificates, or returns nil without a file, which
// selects the system's.
func authorityRoots(path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate in PEM", path)
	}
	return roots, nil
}
