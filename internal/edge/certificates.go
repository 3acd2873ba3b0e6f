package edge

import (
	"crypto/tls"
	"log/slog"
	"slices"
	"strings"

	"slipway.dev/slipway/internal/edge/tlsstore"
	"slipway.dev/slipway/internal/route"
)

// applyTLS serves the certificates and TLS options of the table from the next
// handshake on. The change is already part of the table. A problem with one of
// them affects only its own hosts.
func (s *Server) applyTLS(change *route.Change) []tlsstore.Problem {
	index, problems, ok := s.changeCertificates(change)
	if !ok {
		index, problems = tlsstore.Build(tlsInput(s.book.TLS()), s.certificates.Index())
	}
	s.logTLS(problems)
	s.certificates.Swap(index)
	return problems
}

// changeCertificates makes the next index from the current one where only
// certificates of hosts changed, at the cost of these. It reports false where
// the index has to be built.
func (s *Server) changeCertificates(change *route.Change) (*tlsstore.Index, []tlsstore.Problem, bool) {
	if !change.Authorities.Empty() || !change.TLSOptions.Empty() {
		return nil, nil, false
	}
	var certificates tlsstore.CertificateChange
	for _, certificate := range slices.Concat(change.Certificates.Added, change.Certificates.Changed) {
		switch {
		case certificate.Default:
			return nil, nil, false
		case len(certificate.Hosts) > 0:
			certificates.Set = append(certificates.Set, servedCertificate(certificate))
		default:
			certificates.Removed = append(certificates.Removed, tlsstore.ID(certificate.ID))
		}
	}
	for _, id := range change.Certificates.Removed {
		certificates.Removed = append(certificates.Removed, tlsstore.ID(id))
	}
	return s.certificates.Index().Change(certificates)
}

// logTLS logs problems, each of them once: the same problem is reported again
// with every change until it is fixed. A problem that leaves its object served,
// such as an expired certificate, is only information.
func (s *Server) logTLS(problems []tlsstore.Problem) {
	known := make(map[tlsstore.Problem]struct{}, len(problems))
	for _, problem := range problems {
		known[problem] = struct{}{}
		if _, before := s.tlsProblems[problem]; before {
			continue
		}
		level := slog.LevelWarn
		if problem.Served {
			level = slog.LevelInfo
		}
		s.options.Log.Log(s.lifetime, level, "TLS configuration problem", "problem", problem.Object.String()+": "+problem.Message)
	}
	s.tlsProblems = known
}

// tlsChanged reports whether a change affects TLS.
func tlsChanged(change *route.Change) bool {
	return !change.Certificates.Empty() || !change.Authorities.Empty() || !change.TLSOptions.Empty()
}

// tlsInput returns the part of a table that concerns TLS. The table has already
// decided which hosts a certificate is for, so the store does not check owners.
func tlsInput(table *route.Table) tlsstore.Input {
	var in tlsstore.Input
	for _, certificate := range table.Certificates {
		served := servedCertificate(certificate)
		if certificate.Default {
			in.Default = &served
		}
		if len(certificate.Hosts) > 0 { // the others are client certificates for backends
			in.Certificates = append(in.Certificates, served)
		}
	}
	bundles := make(map[route.AuthorityID]string, len(table.Authorities))
	for _, authority := range table.Authorities {
		bundles[authority.ID] = authority.Bundle
	}
	for _, options := range table.TLSOptions {
		converted := tlsOptions(options, bundles)
		if len(options.Hosts) == 0 {
			in.DefaultOptions = converted
			continue
		}
		in.Options = append(in.Options, tlsstore.HostOptions{
			ID: tlsstore.ID(options.ID), Hosts: options.Hosts, Options: converted,
		})
	}
	return in
}

// servedCertificate returns a certificate for the store, without an owner.
func servedCertificate(certificate *route.Certificate) tlsstore.Certificate {
	return tlsstore.Certificate{
		ID:      tlsstore.ID(certificate.ID),
		CertPEM: certificate.Chain, KeyPEM: certificate.Key.Text,
		Hosts: certificate.Hosts,
	}
}

// tlsOptions returns options for the store. Client CAs that were not found
// leave an empty bundle, which the store refuses: such a host must not be
// served without verification.
func tlsOptions(options *route.TLSOptions, bundles map[route.AuthorityID]string) tlsstore.Options {
	if options.Refused {
		// Verification without any CA: the store refuses such options, and with
		// them the hosts.
		return tlsstore.Options{ClientAuth: tls.RequireAndVerifyClientCert}
	}
	converted := tlsstore.Options{
		MinVersion: options.MinVersion.Number(), MaxVersion: options.MaxVersion.Number(),
		ClientAuth: options.ClientAuth.Type(), ALPN: options.ALPN, SNIStrict: options.SNIStrict,
	}
	for _, name := range options.CipherSuites {
		if number, ok := route.CipherSuiteNumber(name); ok { // the table is valid
			converted.CipherSuites = append(converted.CipherSuites, number)
		}
	}
	var bundle strings.Builder
	for _, id := range options.ClientAuthorities {
		bundle.WriteString(strings.TrimSpace(bundles[id]) + "\n")
	}
	if len(options.ClientAuthorities) > 0 {
		converted.ClientCAs = bundle.String()
	}
	return converted
}
