// Package dns01 publishes the TXT records of DNS-01 challenges (RFC 8555, section
// 8.4), which prove control of a domain and of the wildcard below it.
//
// A record is written by a Provider: dynamic updates (RFC 2136) with a TSIG key, or
// the HTTP API of acme-dns. CNAME records of _acme-challenge are followed, so that
// a zone that cannot be changed may delegate its challenges to one that can.
//
// It promises:
//   - no authority is requested to validate before the authoritative servers, or
//     the configured resolvers, have the record; the wait is bounded;
//   - credentials are read from their files for each record, so that new ones need
//     no restart, and no error contains them;
//   - an update counts only if the response is signed with the key.
package dns01

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"slipway.dev/slipway/internal/backoff"
)

// Check selects the servers that must have a record before it is used.
type Check int

// The checks of propagation.
const (
	// CheckAuthoritative is for all servers in the NS records of the zone.
	CheckAuthoritative Check = iota
	// CheckResolvers is for all recursive servers, where the others cannot be
	// reached.
	CheckResolvers
	// CheckNone trusts the delay.
	CheckNone
)

// Options configure DNS challenges.
type Options struct {
	// Provider writes the records.
	Provider Provider
	// Resolvers are recursive name servers, as host or host:port; empty means those
	// of the system.
	Resolvers []string
	Check     Check
	// Delay is waited for before the first check, and Timeout bounds all checks.
	Delay, Timeout time.Duration
}

// Record is the TXT record of a challenge.
type Record struct {
	// Domain is the domain to prove, without the wildcard.
	Domain string
	// Name is where the record is: _acme-challenge of the domain, or the end of the
	// CNAME records there. It ends with a dot.
	Name  string
	Value string
}

// Provider writes the records of zones.
type Provider interface {
	// Add adds a record beside others of that name: a domain and its wildcard have
	// two challenges at the same name.
	Add(context.Context, Record) error
	// Remove removes a record. One that does not exist is no error.
	Remove(context.Context, Record) error
	// Validate reads the credentials and checks their form.
	Validate() error
}

// checkInterval is the time between two checks. A zone is rarely loaded faster.
const checkInterval = 2 * time.Second

// Publisher publishes the records of one resolver.
type Publisher struct {
	Options
	interval time.Duration
}

// NewPublisher returns a publisher. It sends nothing.
func NewPublisher(options Options) *Publisher {
	return &Publisher{Options: options, interval: checkInterval}
}

// Locate returns the record for the challenge of a domain, still without a value.
func (p *Publisher) Locate(ctx context.Context, domain string) (Record, error) {
	servers, err := p.servers()
	if err != nil {
		return Record{}, err
	}
	name, err := followCNAME(ctx, servers, "_acme-challenge."+domain+".")
	return Record{Domain: domain, Name: name}, err
}

// servers returns the addresses of the recursive name servers.
func (p *Publisher) servers() ([]string, error) {
	if len(p.Resolvers) == 0 {
		return systemServers()
	}
	servers := make([]string, len(p.Resolvers))
	for i, given := range p.Resolvers {
		servers[i] = withPort(given)
	}
	return servers, nil
}

// Await blocks until the servers that are checked have the record.
func (p *Publisher) Await(ctx context.Context, record Record) error {
	if err := backoff.Sleep(ctx, p.Delay); err != nil || p.Check == CheckNone {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	missing := p.poll(limited, record)
	switch {
	case missing == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return fmt.Errorf("the TXT record %s is not everywhere after %v: %w; raise dnsChallenge.propagation.timeout, or set disableANSChecks if the name servers cannot be reached from here",
		record.Name, p.Timeout, missing)
}

// poll checks until a check succeeds, or returns the error of the last one that the
// context did not end: that one would explain nothing.
func (p *Publisher) poll(ctx context.Context, record Record) error {
	missing := errors.New("no server responded")
	for {
		err := p.checkOnce(ctx, record)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			missing = err
		}
		if backoff.Sleep(ctx, p.interval) != nil {
			return missing
		}
	}
}

// checkOnce returns an error that names a server without the record.
func (p *Publisher) checkOnce(ctx context.Context, record Record) error {
	recursive, err := p.servers()
	if err != nil {
		return err
	}
	if p.Check == CheckResolvers {
		for _, server := range recursive {
			if err := hasRecord(ctx, []string{server}, record, true); err != nil {
				return err
			}
		}
		return nil
	}
	authorities, err := authoritative(ctx, recursive, record.Name)
	if err != nil {
		return err
	}
	for _, authority := range authorities {
		if err := hasRecord(ctx, authority.addresses, record, false); err != nil {
			return fmt.Errorf("%s: %w", authority.name, err)
		}
	}
	return nil
}

// withPort adds the port of DNS to an address without one.
func withPort(address string) string {
	if _, _, err := net.SplitHostPort(address); err == nil {
		return address
	}
	return net.JoinHostPort(address, "53")
}

// maxCredentials bounds the size of a file with credentials.
const maxCredentials = 1 << 20

// readCredentials reads a file with credentials. It is bounded, because the path may
// be that of a device.
func readCredentials(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxCredentials+1))
	if err == nil && len(text) > maxCredentials {
		err = fmt.Errorf("%s is larger than %d bytes: name the file with the credentials", path, maxCredentials)
	}
	return text, err
}
