package acme

import (
	"context"
	"time"

	"github.com/mholt/acmez/v3/acme"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"slipway.dev/slipway/internal/ingress/acme/dns01"
	"slipway.dev/slipway/internal/ingress/certrequest"
	"slipway.dev/slipway/internal/observe"
)

// recordTimeout bounds the removal of TXT records, also during shutdown. It is longer
// than one exchange with a name server.
const recordTimeout = 10 * time.Second

// recordSolver solves DNS-01 challenges. Each record is noted in the Secret of
// challenges before it is published, and until it is removed, so that the next leader
// removes the records of one that was killed.
type recordSolver struct {
	authority *authority
	// records are by token. The library calls a solver from one goroutine.
	records map[string]dns01.Record
}

// Present publishes the TXT record of a challenge.
func (s *recordSolver) Present(ctx context.Context, challenge acme.Challenge) error {
	publisher := s.authority.resolver.DNS
	record, err := publisher.Locate(ctx, challenge.Identifier.Value)
	if err != nil {
		return err
	}
	record.Value = challenge.DNS01KeyAuthorization()
	entry := certrequest.Challenge{
		Host: record.Domain, Record: record.Name, KeyAuthorization: record.Value, Resolver: s.authority.name, Created: time.Now().UTC(),
	}
	if err := s.authority.manager.updateChallenges(ctx, func(entries map[string][]byte) { entries[challenge.Token] = entry.Encode() }); err != nil {
		return err
	}
	s.records[challenge.Token] = record
	return publisher.Provider.Add(ctx, record)
}

// Wait blocks until name servers have the record.
func (s *recordSolver) Wait(ctx context.Context, challenge acme.Challenge) error {
	return s.authority.resolver.DNS.Await(ctx, s.records[challenge.Token])
}

// CleanUp removes the record of a challenge. It runs to its end even when the context
// of the order is done.
func (s *recordSolver) CleanUp(ctx context.Context, challenge acme.Challenge) error {
	record, published := s.records[challenge.Token]
	if !published {
		return nil
	}
	return s.authority.removeRecord(context.WithoutCancel(ctx), challenge.Token, record)
}

// removeRecord removes one record and its note. A failure is logged, because the
// library drops it, and the note stays for removeLeftRecords.
func (a *authority) removeRecord(ctx context.Context, token string, record dns01.Record) error {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	err := a.resolver.DNS.Provider.Remove(ctx, record)
	if err == nil {
		err = a.manager.updateChallenges(ctx, func(entries map[string][]byte) { delete(entries, token) })
	}
	if err != nil {
		a.manager.log.Warn("TXT record of a challenge not removed; the next order retries", "resolver", a.name, "record", record.Name, observe.KeyError, err)
	}
	return err
}

// removeLeftRecords removes the records of orders that were interrupted. The worker of
// the resolver calls it before an order: it has no other one then, so that each record
// in the Secret is left over.
func (a *authority) removeLeftRecords(ctx context.Context) {
	if a.resolver.DNS == nil {
		return
	}
	reading, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	found, err := a.manager.challengesSecret(reading)
	if err != nil {
		if !apierrors.IsNotFound(err) && ctx.Err() == nil {
			a.manager.log.Warn("search for left TXT records failed", "resolver", a.name, observe.KeyError, err)
		}
		return
	}
	for token, value := range found.Data {
		entry, err := certrequest.DecodeChallenge(value)
		if err != nil || entry.Resolver != a.name {
			continue
		}
		record := dns01.Record{Domain: entry.Host, Name: entry.Record, Value: entry.KeyAuthorization}
		if a.removeRecord(ctx, token, record) != nil {
			return // the name server is away, and an order must not wait for each of them
		}
	}
}
