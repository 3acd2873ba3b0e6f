package edge

import (
	"crypto/tls"
	"log/slog"
	"strings"

	"slipway.dev/slipway/internal/edge/tlsstore"
	"slipway.dev/slipway/internal/route"
)

// applyTLS serves the certificates and TLS options of a table from the next
// handshake on. What is wrong with one of them costs only its own hosts.
func (s *Server) applyTLS(table *route.Table) []tlsstore.Problem {
	index, problems := tlsstore.Build(tlsInput(table), s.certificates.Index())
	for _, problem := range problems {
		level := slog.LevelWarn
		if problem.Served {
			level = slog.LevelInfo
		}
		s.options.Log.Log(s.lifetime, level, "TLS is not as the routes ask for", "problem", problem.String())
	}
	s.certificates.Swap(index)
	return problems
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
		served := tlsstore.Certificate{
			ID:      tlsstore.ID(certificate.ID),
			CertPEM: certificate.Chain, KeyPEM: certificate.Key.Text,
			Hosts: certificate.Hosts,
		}
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
