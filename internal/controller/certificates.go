package controller

import (
	"context"
	"crypto/x509"
	"fmt"
	"os"
	"sync"
	"time"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/ingress/acme"
	"slipway.dev/slipway/internal/ingress/acme/dns01"
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
		made, err := resolverOf(name, &given.ACME)
		if err != nil {
			return nil, err
		}
		resolvers[name] = made
	}
	k := p.options.Providers.KubernetesIngress
	// Owner separates edges of different IngressClasses in one namespace, as
	// the Lease does.
	return acme.New(p.cluster, acme.Options{
		Resolvers: resolvers, Namespaces: k.Namespaces,
		Owner: p.cluster.Namespace + "/" + leaseName(k.IngressClass), Agent: "slipway/" + parts.version,
		// Failures reach the status of the object that requested the certificate.
		Report: func(object snapshot.Ref, name string, fault *refusal.Refusal) {
			if object.Kind == snapshot.Ingress {
				p.writer.SetFetchFailure(object, name, fault)
				return
			}
			p.gateways.SetFetchFailure(object, name, fault)
		},
		Metrics: acme.NewMetrics(parts.metrics.For("acme")), Log: p.log,
	}), nil
}

// resolverOf returns the resolver of valid options, and checks the files that they
// name.
func resolverOf(name string, given *config.ACMEResolver) (acme.Resolver, error) {
	at := "certificatesResolvers." + name + ".acme."
	roots, err := authorityRoots(given.CACertificate)
	if err != nil {
		return acme.Resolver{}, fmt.Errorf("%scaCertificate: %w", at, err)
	}
	made := acme.Resolver{
		Directory: given.CAServer, Email: given.Email, Roots: roots, KeyType: given.KeyType,
		BindingID: given.EAB.KID, BindingKey: given.EAB.HMACEncoded,
		PreferredChain: given.PreferredChain, EntryPoint: given.HTTPChallenge.EntryPoint,
	}
	if given.DNSChallenge.Provider == "" {
		return made, nil
	}
	dns := dnsOptions(&given.DNSChallenge)
	if err := dns.Provider.Validate(); err != nil {
		return acme.Resolver{}, fmt.Errorf("%sdnsChallenge: %w", at, err)
	}
	made.DNS = dns01.NewPublisher(dns)
	return made, nil
}

// dnsOptions returns the options of DNS challenges.
func dnsOptions(given *config.DNSChallenge) dns01.Options {
	made := dns01.Options{
		Resolvers: given.Resolvers,
		Delay:     time.Duration(given.Propagation.DelayBeforeChecks), Timeout: time.Duration(given.Propagation.Timeout),
	}
	switch {
	case given.Propagation.DisableChecks:
		made.Check = dns01.CheckNone
	case given.Propagation.DisableANSChecks:
		made.Check = dns01.CheckResolvers
	}
	if given.Provider == config.ProviderRFC2136 {
		made.Provider = &dns01.RFC2136{
			Server: given.RFC2136.Nameserver, Key: given.RFC2136.TSIGKey, Algorithm: given.RFC2136.TSIGAlgorithm, SecretFile: given.RFC2136.TSIGSecretFile,
		}
	} else {
		made.Provider = &dns01.AcmeDNS{API: given.AcmeDNS.APIBase, AccountsFile: given.AcmeDNS.AccountsFile}
	}
	return made
}

// lead runs while this replica is the leader and returns when ctx ends. Only
// the leader orders certificates, so that replicas do not exhaust the rate
// limits of the CA; the others read them from Secrets.
func (p *ingressProvider) lead(ctx context.Context) {
	var leading sync.WaitGroup
	if p.gateways != nil {
		p.gateways.ForgetFetchFailures() // before the fetcher, which reports new ones
		leading.Go(func() { p.gateways.Lead(ctx) })
		leading.Go(func() { p.gateways.Replicas.Lead(ctx) })
		if p.deployments != nil {
			leading.Go(func() { p.deployments.Lead(ctx) })
		}
	}
	if p.fetcher != nil {
		leading.Go(func() { p.fetcher.Lead(ctx) })
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
