package policy

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/ingress/reference"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// TLSOption converts a TLSOption to TLS conditions, without hosts. Its references
// are resolved from its own namespace.
func TLSOption(object *snapshot.Resource, source reference.Source) (reference.TLSConditions, []refusal.Refusal) {
	var spec v1alpha1.TLSOptionSpec
	if faults := decode(object, &spec); len(faults) > 0 {
		return reference.TLSConditions{}, faults
	}
	conditions := reference.TLSConditions{Options: route.TLSOptions{
		ID:         route.TLSOptionsID{Namespace: object.Namespace, Name: object.Name},
		MinVersion: route.TLSVersion(spec.MinVersion), MaxVersion: route.TLSVersion(spec.MaxVersion),
		CipherSuites: spec.CipherSuites, ALPN: spec.ALPN, SNIStrict: spec.SNIStrict,
	}}
	var faults []refusal.Refusal
	if spec.ClientAuth != nil {
		conditions.Options.ClientAuth = route.ClientAuth(spec.ClientAuth.Mode)
		for i, name := range spec.ClientAuth.Secrets {
			authority, fault := authority(source.In(object.Namespace), name)
			if fault != nil {
				faults = append(faults, *fault.At(fmt.Sprintf("spec.clientAuth.secrets[%d]", i)))
				continue
			}
			// A Secret named twice counts once: a table has each authority
			// once.
			if !slices.Contains(conditions.Options.ClientAuthorities, authority.ID) {
				conditions.Options.ClientAuthorities = append(conditions.Options.ClientAuthorities, authority.ID)
				conditions.Authorities = append(conditions.Authorities, authority)
			}
		}
	}
	if len(faults) == 0 {
		for _, problem := range conditions.Options.Validate() {
			faults = append(faults, *reference.RefusalOf(problem, written(problem.Field)).At("spec"))
		}
	}
	if len(faults) > 0 {
		return reference.TLSConditions{}, faults
	}
	return conditions, nil
}

// Transport converts a BackendTransport. Its references are resolved from its
// own namespace. An unset timeout stays zero, so that the annotations of an
// Ingress and the defaults of the edge apply.
func Transport(object *snapshot.Resource, source reference.Source) (reference.Transport, []refusal.Refusal) {
	var spec v1alpha1.BackendTransportSpec
	if faults := decode(object, &spec); len(faults) > 0 {
		return reference.Transport{}, faults
	}
	made := reference.Transport{HTTP1Only: spec.HTTP1Only}
	if t := spec.Timeouts; t != nil {
		made.Timeouts = route.Timeouts{
			Connect: route.Duration(t.Connect), Header: route.Duration(t.Header), Idle: route.Duration(t.Idle), Total: route.Duration(t.Total),
		}
	}
	faults := addUpstreamTLS(&made, spec.TLS, source.In(object.Namespace))
	if len(faults) == 0 {
		faults = checkUpstream(made.TLS)
	}
	if len(faults) > 0 {
		return reference.Transport{}, at(faults, "spec")
	}
	return made, nil
}

// addUpstreamTLS resolves the certificates of a transport and reports the
// faults of both references. declared may be nil, which leaves the TLS settings
// unset.
func addUpstreamTLS(made *reference.Transport, declared *v1alpha1.UpstreamTLS, source reference.Source) []refusal.Refusal {
	if declared == nil {
		return nil
	}
	made.TLS = &route.UpstreamTLS{ServerName: declared.ServerName, SkipVerify: declared.SkipVerify}
	var faults []refusal.Refusal
	if declared.CASecret != "" {
		if authority, fault := authority(source, declared.CASecret); fault != nil {
			faults = append(faults, *fault.At("tls.caSecret"))
		} else {
			made.TLS.Authority = authority.ID
			made.Authorities = append(made.Authorities, authority)
		}
	}
	if declared.CertificateSecret != "" {
		if certificate, fault := certificate(source, declared.CertificateSecret); fault != nil {
			faults = append(faults, *fault.At("tls.certificateSecret"))
		} else {
			made.TLS.Certificate = certificate.ID
			made.Certificates = append(made.Certificates, certificate)
		}
	}
	return faults
}

// checkUpstream validates the TLS settings as part of a backend. Only the TLS
// part is filled in, so all problems are about it.
func checkUpstream(declared *route.UpstreamTLS) []refusal.Refusal {
	backend := route.Backend{ID: route.BackendID{Name: "transport"}, Transport: route.Transport{Protocol: route.ProtocolALPN, TLS: declared}}
	var faults []refusal.Refusal
	for _, problem := range backend.Validate() {
		faults = append(faults, *reference.RefusalOf(problem, written(problem.Field)))
	}
	return faults
}

// authority returns the CA bundle of a Secret, if it is valid. An invalid
// bundle would make the edge trust no client or endpoint at all.
func authority(source reference.Source, name string) (*route.Authority, *refusal.Refusal) {
	found, fault := source.Authority(name)
	if fault != nil {
		return nil, fault
	}
	if !vouches([]byte(found.Bundle)) {
		return nil, refusal.New("", refusal.Invalid, "the Secret %s has authorities that are not certificates in PEM", found.ID)
	}
	return found, nil
}

// vouches reports whether a bundle has certificates, and all of its blocks
// parse: a damaged one would otherwise be ignored silently. Blocks of other
// types, such as a key, are skipped.
func vouches(bundle []byte) bool {
	count := 0
	for {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			return count > 0
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return false
		}
		count++
	}
}

// certificate returns the certificate of a Secret, if its key matches. The
// error of X509KeyPair is not passed on, because messages must not quote the
// content of a Secret.
func certificate(source reference.Source, name string) (*route.Certificate, *refusal.Refusal) {
	found, fault := source.Certificate(name)
	if fault != nil {
		return nil, fault
	}
	if _, err := tls.X509KeyPair([]byte(found.Chain), []byte(found.Key.Reveal())); err != nil {
		return nil, refusal.New("", refusal.Invalid, "the Secret %s has no certificate in PEM with its key", found.ID)
	}
	return found, nil
}
