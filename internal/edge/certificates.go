package edge

import (
	"crypto/tls"
	"log/slog"
	"slices"
	"strings"

	"slipway.dev/slipway/internal/edge/tlsstore"
	"slipway.dev/slipway/internal/route"
)

// applyTLS serves the certificates and TLS options of the book from the next
// handshake on, of which the change is already part. What is wrong with one of
// them costs only its own hosts.
func (s *Server) applyTLS(change *route.Change) []tlsstore.Problem {
	index, problems, ok := s.changeCertificates(change)
	if !ok {
		index, problems = tlsstore.Build(tlsInput(s.book.TLS()), s.certificates.Index())
	}
	s.logTLS(problems)
	s.certificates.Swap(index)
	return problems
}

// changeCertificates makes the next index of the last one where nothing but
// certificates of hosts changed, which is at the cost of these.
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

// logTLS says what is wrong, each thing once.
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
		s.options.Log.Log(s.lifetime, level, "TLS is not as the routes ask for", "problem", problem.String())
	}
	s.tlsProblems = known
}

// tlsChanged reports whether a change has anything to do with TLS.
func tlsChanged(change *route.Change) bool {
	return !change.Certificates.Empty() || !change.Authorities.Empty() || !change.TLSOptions.Empty()
}

// tlsInput is what a table says about TLS. Which hosts a certificate is for was
// decided with the table, so nobody owns hosts here.
func tlsInput(table *route.Table) tlsstore.Input {
	var in tlsstore.Input
	for _, certificate := range table.Certificates {
		served := servedCertificate(certificate)
		if certificate.Default {
			in.Default = &served
		}
		if len(certificate.Hosts) > 0 { // others are only shown to backends
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

func servedCertificate(certificate *route.Certificate) tlsstore.Certificate {
	return tlsstore.Certificate{
		ID:      tlsstore.ID(certificate.ID),
		CertPEM: certificate.Chain, KeyPEM: certificate.Key.Text,
		Hosts: certificate.Hosts,
	}
}

func tlsOptions(options *route.TLSOptions, bundles map[route.AuthorityID]string) tlsstore.Options {
	if options.Refused {
		// Nobody can vouch for anybody: the store refuses such options, and with
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
