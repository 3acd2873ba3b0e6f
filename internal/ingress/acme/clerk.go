package acme

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/wish"
	"slipway.dev/slipway/internal/observe"
)

// vault is where certificates are kept.
type vault interface {
	// read gives what a wish has so far.
	read(context.Context, wish.Wish) (held, error)
	// write keeps a certificate. Without one it only tries whether that would
	// be possible.
	write(context.Context, wish.Wish, held, *issued) error
}

// source is where certificates come from.
type source interface {
	// obtain orders a certificate, in the place of another one if there is one.
	obtain(ctx context.Context, hosts []string, replaces *x509.Certificate) (*issued, error)
	// advise asks when a certificate should be renewed.
	advise(context.Context, *x509.Certificate) (time.Time, error)
}

// issued is a certificate that an authority has given.
type issued struct {
	chain, key []byte // PEM
	leaf       *x509.Certificate
}

// errNoAdvice is the answer of an authority that never has advice.
var errNoAdvice = errors.New("the authority does not say when to renew")

// comeBackError is an error of an authority that says when to come back.
type comeBackError struct {
	error
	at time.Time
	// busy is set where nobody should come earlier, whatever he wants.
	busy bool
}

// Unwrap gives the error itself.
func (e *comeBackError) Unwrap() error { return e.error }

// clerk works on the wishes for one resolver, one after the other.
type clerk struct {
	manager *Manager
	name    string
	vault   vault
	source  source

	jobs map[snapshot.Ref]*job
	// notBefore is when the authority may be asked again.
	notBefore time.Time
	// adviceless is set once the authority said that it has no advice.
	adviceless bool
}

func newClerk(m *Manager, name string, vault vault, source source) *clerk {
	return &clerk{manager: m, name: name, vault: vault, source: source, jobs: map[snapshot.Ref]*job{}}
}

// run works until the context is done.
func (c *clerk) run(ctx context.Context) {
	for ctx.Err() == nil {
		wishes, changed := c.manager.current(c.name)
		c.take(wishes)
		next := c.next()
		if next != nil && !time.Now().Before(c.dueOf(next)) {
			c.do(ctx, next)
			continue
		}
		c.wait(ctx, next, changed)
	}
}

// wait waits until a job is due or something changes.
func (c *clerk) wait(ctx context.Context, next *job, changed <-chan struct{}) {
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

// take makes the jobs those of the wishes. A certificate that was there and is
// not any more is looked for again.
func (c *clerk) take(wishes []wish.Wish) {
	now := time.Now()
	wished := make(map[snapshot.Ref]bool, len(wishes))
	for _, wanted := range wishes {
		wished[wanted.Secret] = true
		known := c.jobs[wanted.Secret]
		if known == nil {
			known = &job{due: now, adviceAt: now.Add(rand.N(c.manager.pace.advice)), early: rand.Float64()}
			c.jobs[wanted.Secret] = known
			c.manager.hold(wanted.Secret, holding{})
		}
		if known.wish.Ready && !wanted.Ready {
			known.due = now
		}
		c.tellLeft(known, wanted)
		known.wish = wanted
	}
	for ref, known := range c.jobs {
		if !wished[ref] {
			c.tell(known, nil)
			delete(c.jobs, ref)
			c.manager.release(ref)
		}
	}
}

// tellLeft takes back what was told to Ingresses that do not wish any more, and
// tells it to those that do now.
func (c *clerk) tellLeft(known *job, wanted wish.Wish) {
	if known.fault == nil {
		return
	}
	before := known.wish
	known.wish = wanted
	still := map[snapshot.Ref]bool{}
	for _, from := range wanted.From {
		still[from.Ingress] = true
	}
	for _, from := range before.From {
		if !still[from.Ingress] {
			c.manager.options.Tell(from.Ingress, wanted.Secret.Name, nil)
		}
	}
	c.tell(known, known.fault)
	known.wish = before
}

// next is the job that is due first.
func (c *clerk) next() *job {
	var first *job
	for _, known := range c.jobs {
		if first == nil || known.due.Before(first.due) {
			first = known
		}
	}
	return first
}

func (c *clerk) dueOf(known *job) time.Time {
	if c.notBefore.After(known.due) {
		return c.notBefore
	}
	return known.due
}

// do looks after one wish: it finds what is there, and orders what is not.
func (c *clerk) do(ctx context.Context, known *job) {
	has, err := c.vault.read(ctx, known.wish)
	if err != nil {
		c.failed(ctx, known, err)
		return
	}
	known.leaf = has.leaf
	if has.leaf != nil {
		c.manager.hold(known.wish.Secret, holding{notAfter: has.leaf.NotAfter})
		if at := known.renewAt(); time.Now().Before(at) && !has.stale {
			c.rest(ctx, known)
			return
		}
	}
	began := time.Now()
	fresh, err := c.order(ctx, known.wish, has)
	if err != nil {
		c.failed(ctx, known, err)
		return
	}
	result := resultIssued
	if has.leaf != nil {
		result = resultRenewed
	}
	c.manager.options.Metrics.orders.WithLabelValues(c.name, result).Inc()
	c.manager.log.Info("a certificate was fetched", "resolver", c.name, "hosts", strings.Join(known.wish.Hosts, ","),
		"secret", known.wish.Secret.String(), "until", fresh.leaf.NotAfter, "took", time.Since(began))
	c.manager.hold(known.wish.Secret, holding{notAfter: fresh.leaf.NotAfter})
	known.leaf, known.suggested = fresh.leaf, time.Time{}
	known.adviceAt = time.Now().Add(jittered(c.manager.pace.advice))
	c.settle(known)
}

// order fetches a certificate and keeps it.
func (c *clerk) order(ctx context.Context, wanted wish.Wish, has held) (*issued, error) {
	ctx, cancel := context.WithTimeout(ctx, c.manager.pace.order)
	defer cancel()
	if err := c.vault.write(ctx, wanted, has, nil); err != nil {
		return nil, fmt.Errorf("nothing is ordered, because it could not be kept: %w", err)
	}
	fresh, err := c.source.obtain(ctx, wanted.Hosts, has.leaf)
	if err != nil {
		return nil, err
	}
	return fresh, c.vault.write(ctx, wanted, has, fresh)
}

// rest lets a certificate be until it is to be renewed, and asks now and then
// whether that is earlier than it seems.
func (c *clerk) rest(ctx context.Context, known *job) {
	now := time.Now()
	if !c.adviceless && !now.Before(known.adviceAt) {
		suggested, err := c.source.advise(ctx, known.leaf)
		switch {
		case errors.Is(err, errNoAdvice):
			c.adviceless = true
		case err == nil:
			known.suggested = suggested
		default:
			c.manager.log.Debug("an authority did not say when to renew", "resolver", c.name, observe.KeyError, err)
		}
		known.adviceAt = now.Add(jittered(c.manager.pace.advice))
	}
	c.settle(known)
}

// settle puts a job that has its certificate off until there is a reason to look
// at it.
func (c *clerk) settle(known *job) {
	known.failures = 0
	known.due = known.renewAt()
	if !c.adviceless && known.adviceAt.Before(known.due) {
		known.due = known.adviceAt
	}
	c.tell(known, nil)
}

// failed puts a job off and says why.
func (c *clerk) failed(ctx context.Context, known *job, err error) {
	if ctx.Err() != nil {
		return // it was not given the time
	}
	known.failures++
	known.due = time.Now().Add(jittered(c.manager.pace.after(known.failures)))
	var later *comeBackError
	if errors.As(err, &later) {
		if later.at.After(known.due) {
			known.due = later.at
		}
		if later.busy {
			c.notBefore = later.at
		}
	}
	c.manager.options.Metrics.orders.WithLabelValues(c.name, resultFailed).Inc()
	c.manager.log.Warn("a certificate could not be fetched", "resolver", c.name, "hosts", strings.Join(known.wish.Hosts, ","),
		"secret", known.wish.Secret.String(), observe.KeyError, err, "again", known.due)
	c.tell(known, faultOf(known, c.name, err))
}

// tell says to everybody who wished what became of it.
func (c *clerk) tell(known *job, fault *snapshot.Fault) {
	if fault == nil && known.fault == nil {
		return
	}
	known.fault = fault
	for _, from := range known.wish.From {
		if fault != nil {
			at := *fault
			at.Field = from.Field
			c.manager.options.Tell(from.Ingress, known.wish.Secret.Name, &at)
			continue
		}
		c.manager.options.Tell(from.Ingress, known.wish.Secret.Name, nil)
	}
}
