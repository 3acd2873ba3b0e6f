package acme

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/certrequest"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/observe"
)

// certificateStore stores issued certificates.
type certificateStore interface {
	// read returns the certificate that is stored for a request, if any.
	read(context.Context, certrequest.Request) (storedCertificate, error)
	// write stores a certificate. With nil it is a dry run, which finds missing
	// rights before an order is spent.
	write(context.Context, certrequest.Request, storedCertificate, *issued) error
}

// issuer issues certificates.
type issuer interface {
	// obtain orders a certificate that replaces another one, if that is not nil.
	obtain(ctx context.Context, hosts []string, replaces *x509.Certificate) (*issued, error)
	// renewalInfo requests the renewal window of a certificate (RFC 9773).
	renewalInfo(context.Context, *x509.Certificate) (time.Time, error)
}

// issued is a new certificate with its key.
type issued struct {
	chain, key []byte // PEM
	leaf       *x509.Certificate
}

// errNoRenewalInfo is returned for an authority that does not support RFC 9773.
var errNoRenewalInfo = errors.New("the authority does not support renewal information")

// retryAfterError is an error response with a Retry-After header.
type retryAfterError struct {
	error
	at time.Time
	// busy is set for a 503: it applies to all orders, not to one.
	busy bool
}

// Unwrap returns the wrapped error.
func (e *retryAfterError) Unwrap() error { return e.error }

// issuerWorker processes the certificate requests of one resolver, one at a time: an
// authority limits the orders of an account, and a queue of one never collides
// with itself. It is owned by one goroutine.
type issuerWorker struct {
	manager *Manager
	name    string
	store   certificateStore
	issuer  issuer

	jobs map[snapshot.Ref]*job
	// notBefore is the earliest time of the next order, after a 503.
	notBefore time.Time
	// noRenewalInfo is set once the authority is found not to support RFC 9773.
	noRenewalInfo bool
}

// newIssuerWorker returns a worker without jobs; run fills them in.
func newIssuerWorker(m *Manager, name string, store certificateStore, from issuer) *issuerWorker {
	return &issuerWorker{manager: m, name: name, store: store, issuer: from, jobs: map[snapshot.Ref]*job{}}
}

// run processes due jobs until the context is done.
func (c *issuerWorker) run(ctx context.Context) {
	for ctx.Err() == nil {
		requests, changed := c.manager.current(c.name)
		c.setRequests(requests)
		next := c.next()
		if next != nil && !time.Now().Before(c.dueOf(next)) {
			c.process(ctx, next)
			continue
		}
		c.wait(ctx, next, changed)
	}
}

// wait blocks until the next job is due or the requests change.
func (c *issuerWorker) wait(ctx context.Context, next *job, changed <-chan struct{}) {
	var due <-chan time.Time
	if next != nil {
		timer := time.NewTimer(time.Until(c.dueOf(next)))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
	case <-changed:
	case <-due:
	}
}

// setRequests adds and removes jobs so that there is one for each request. A
// certificate that was ready and no longer is becomes due at once.
func (c *issuerWorker) setRequests(requests []certrequest.Request) {
	now := time.Now()
	requested := make(map[snapshot.Ref]bool, len(requests))
	for _, wanted := range requests {
		requested[wanted.Secret] = true
		known := c.jobs[wanted.Secret]
		if known == nil {
			// The jitter spreads the requests for renewal information and the
			// renewals of certificates that were issued together.
			known = &job{due: now, renewalInfoAt: now.Add(rand.N(c.manager.timing.renewalInfo)), renewalJitter: rand.Float64()}
			c.jobs[wanted.Secret] = known
			c.manager.track(wanted.Secret, trackedCertificate{})
		}
		if known.request.Ready && !wanted.Ready {
			known.due = now
		}
		c.updateRequesters(known, wanted)
		known.request = wanted
	}
	for ref, known := range c.jobs {
		if !requested[ref] {
			c.report(known, nil)
			delete(c.jobs, ref)
			c.manager.untrack(ref)
		}
	}
}

// updateRequesters clears the fault of objects that no longer request the
// certificate, and reports it to those that newly do.
func (c *issuerWorker) updateRequesters(known *job, wanted certrequest.Request) {
	if known.fault == nil {
		return
	}
	before := known.request
	known.request = wanted
	still := map[certrequest.Requester]bool{}
	for _, from := range wanted.From {
		still[from] = true
	}
	for _, from := range before.From {
		if !still[from] {
			c.manager.options.Report(from.Object, wanted.Secret.Name, nil)
		}
	}
	c.report(known, known.fault)
	known.request = before
}

// next returns the job that is due first. Linear search is enough: it runs once
// per order or change of the requests.
func (c *issuerWorker) next() *job {
	var first *job
	for _, known := range c.jobs {
		if first == nil || known.due.Before(first.due) {
			first = known
		}
	}
	return first
}

// dueOf returns when a job may run: not before the authority accepts orders again.
func (c *issuerWorker) dueOf(known *job) time.Time {
	if c.notBefore.After(known.due) {
		return c.notBefore
	}
	return known.due
}

// process handles one due job: it reads the stored certificate, and orders one if
// it is missing, stale or to be renewed.
func (c *issuerWorker) process(ctx context.Context, known *job) {
	has, err := c.store.read(ctx, known.request)
	if err != nil {
		c.retryLater(ctx, known, err)
		return
	}
	known.leaf = has.leaf
	if has.leaf != nil {
		c.manager.track(known.request.Secret, trackedCertificate{notAfter: has.leaf.NotAfter})
		if at := known.renewAt(); time.Now().Before(at) && !has.stale {
			c.checkRenewalInfo(ctx, known)
			return
		}
	}
	began := time.Now()
	fresh, err := c.order(ctx, known.request, has)
	if err != nil {
		c.retryLater(ctx, known, err)
		return
	}
	result := resultIssued
	if has.leaf != nil {
		result = resultRenewed
	}
	c.manager.options.Metrics.orders.WithLabelValues(c.name, result).Inc()
	c.manager.log.Info("certificate issued", "resolver", c.name, "hosts", strings.Join(known.request.Hosts, ","),
		"secret", known.request.Secret.String(), "until", fresh.leaf.NotAfter, "took", time.Since(began))
	c.manager.track(known.request.Secret, trackedCertificate{notAfter: fresh.leaf.NotAfter})
	known.leaf, known.suggested = fresh.leaf, time.Time{}
	known.renewalInfoAt = time.Now().Add(jittered(c.manager.timing.renewalInfo))
	c.reschedule(known)
}

// order obtains a certificate and stores it. The dry run comes first, so that a
// missing right does not use up the rate limits of the authority.
func (c *issuerWorker) order(ctx context.Context, wanted certrequest.Request, has storedCertificate) (*issued, error) {
	ctx, cancel := context.WithTimeout(ctx, c.manager.timing.orderTimeout)
	defer cancel()
	if err := c.store.write(ctx, wanted, has, nil); err != nil {
		return nil, fmt.Errorf("nothing is ordered, because the certificate could not be stored: %w", err)
	}
	fresh, err := c.issuer.obtain(ctx, wanted.Hosts, has.leaf)
	if err != nil {
		return nil, err
	}
	return fresh, c.store.write(ctx, wanted, has, fresh)
}

// checkRenewalInfo reschedules a job whose certificate is good, and refreshes the
// suggested time of its renewal from the authority when that is due.
func (c *issuerWorker) checkRenewalInfo(ctx context.Context, known *job) {
	now := time.Now()
	if !c.noRenewalInfo && !now.Before(known.renewalInfoAt) {
		suggested, err := c.issuer.renewalInfo(ctx, known.leaf)
		switch {
		case errors.Is(err, errNoRenewalInfo):
			c.noRenewalInfo = true
		case err == nil:
			known.suggested = suggested
		default:
			c.manager.log.Debug("renewal information unavailable", "resolver", c.name, observe.KeyError, err)
		}
		known.renewalInfoAt = now.Add(jittered(c.manager.timing.renewalInfo))
	}
	c.reschedule(known)
}

// reschedule sets the next due time of a job that has its certificate: the renewal,
// or the next request for renewal information if that comes earlier.
func (c *issuerWorker) reschedule(known *job) {
	known.failures = 0
	known.due = known.renewAt()
	if !c.noRenewalInfo && known.renewalInfoAt.Before(known.due) {
		known.due = known.renewalInfoAt
	}
	c.report(known, nil)
}

// retryLater reschedules a failed job with backoff and reports the fault.
func (c *issuerWorker) retryLater(ctx context.Context, known *job, err error) {
	if ctx.Err() != nil {
		return // interrupted by a shutdown, which is no failure
	}
	known.failures++
	known.due = time.Now().Add(jittered(c.manager.timing.retryDelay(known.failures)))
	if later, ok := errors.AsType[*retryAfterError](err); ok {
		if later.at.After(known.due) {
			known.due = later.at
		}
		if later.busy {
			c.notBefore = later.at
		}
	}
	c.manager.options.Metrics.orders.WithLabelValues(c.name, resultFailed).Inc()
	c.manager.log.Warn("certificate order failed", "resolver", c.name, "hosts", strings.Join(known.request.Hosts, ","),
		"secret", known.request.Secret.String(), observe.KeyError, err, "retryAt", known.due)
	c.report(known, faultOf(known, c.name, err))
}

// report sets or clears the fault of a certificate on each object that requests
// it.
func (c *issuerWorker) report(known *job, fault *refusal.Refusal) {
	if fault == nil && known.fault == nil {
		return
	}
	known.fault = fault
	for _, from := range known.request.From {
		if fault != nil {
			at := *fault
			at.Field = from.Field
			c.manager.options.Report(from.Object, known.request.Secret.Name, &at)
			continue
		}
		c.manager.options.Report(from.Object, known.request.Secret.Name, nil)
	}
}
