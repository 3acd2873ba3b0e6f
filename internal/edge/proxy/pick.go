package proxy

import (
	"context"
	"errors"
	"hash/fnv"
	"net"
	"strings"
	"time"

	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/route"
)

// target is where an attempt goes: a backend, and the lease of one endpoint.
type target struct {
	handle  *upstream.Handle
	lease   upstream.Lease
	options upstream.PickOptions
	sticky  string // the part of the rule's cookie that stands for the backend
	// retried is set after an attempt at the canary of a Release failed. The next one is
	// at the stable revision. retryOf is the canary whose error response was dropped for it,
	// and overdue the time after which a response of it was not waited for any longer.
	retried bool
	retryOf *upstream.Revision
	overdue time.Duration
}

// pick chooses a backend of the rule and an endpoint of it. A rule with one
// backend that needs nothing of the request takes the fast path of upstream.
func (a *attempt) pick() error {
	rule := a.x.rule
	if rule.sticky != nil {
		return a.pickSticky()
	}
	t := &a.target
	if t.handle = rule.only; t.handle == nil {
		t.handle = a.choose(rule.backends.nextIndex())
	}
	var fast bool
	if t.lease, fast = t.handle.PickFast(); fast {
		return nil
	}
	t.options = a.x.pickOptions(t.handle)
	var err error
	t.lease, err = t.handle.Pick(t.options)
	return err
}

// choose takes a backend of the rule, with the headers that only its requests have.
func (a *attempt) choose(at int) *upstream.Handle {
	backends := a.x.rule.backends
	if backends.headers != nil {
		backends.headers[at].Apply(a.x.filters)
	}
	return backends.handles[at]
}

// pickSticky leads a client back to the backend of its cookie. A backend that
// cannot serve it now loses it to the one whose turn it is; one that is
// overloaded keeps it, because moving its clients would overload the others.
func (a *attempt) pickSticky() (err error) {
	rule, t := a.x.rule, &a.target
	backend, endpoint, _ := strings.Cut(a.x.cookie(rule.sticky.cookie.Name), ".")
	at, known := rule.sticky.backends[backend]
	if !known {
		at = rule.backends.nextIndex()
	}
	for tried := 0; ; tried++ {
		*t = target{handle: rule.backends.handles[at], sticky: rule.sticky.values[at]}
		t.options = a.x.pickOptions(t.handle)
		if known && endpoint != "" {
			t.options.Sticky = endpoint
		}
		if t.lease, err = t.handle.Pick(t.options); err == nil || !known || errors.Is(err, upstream.ErrOverloaded) {
			a.choose(at)
			return err
		}
		// The turn may come to the same backend more than once.
		if next := rule.backends.nextIndex(); next != at || tried == len(rule.backends.handles) {
			at, known = next, false
		}
	}
}

// connect lends a connection to the endpoint, pooled or new, and sets the timers
// that may end the attempt.
func (a *attempt) connect(fresh bool) error {
	x := a.x
	x.record.Backend, x.record.Endpoint = a.target.handle.ID(), ""
	conn, err := a.lend(x.remaining(a.connectTimeout()), fresh)
	if err != nil {
		return err
	}
	a.upstream = conn
	x.record.Endpoint = a.target.lease.Endpoint().Address()
	x.record.Connected = time.Since(x.record.Began)
	a.setTimeouts()
	if wait := x.remaining(a.remaining()); wait > 0 {
		a.totalTimer = closeAfter(conn, wait)
	}
	if gone := x.conn.from.Gone; gone != nil {
		a.closeWith(gone)
	}
	return nil
}

// lend takes a connection of the event loop, where one serves the client, or one of goroutines.
func (a *attempt) lend(timeout time.Duration, fresh bool) (*upstream.Conn, error) {
	if task := a.x.conn.task; task != nil && !task.Away() {
		conn, err := a.target.lease.ConnectIn(task, timeout, fresh)
		if err != upstream.ErrNotLooped {
			return conn, err
		}
		a.x.leave()
	}
	return a.target.lease.Connect(context.Background(), timeout, fresh)
}

// canceler is a context that closes a connection itself when it is cancelled, as that
// of a stream of HTTP/2 does.
type canceler interface {
	CloseOnCancel(net.Conn)
	KeepOnCancel() bool
}

// closeWith closes the connection to the endpoint when a context ends.
func (a *attempt) closeWith(ctx context.Context) {
	conn := a.upstream.NetConn()
	if own, ok := ctx.(canceler); ok {
		own.CloseOnCancel(conn)
		a.canceler = own
		return
	}
	a.cancelHook = context.AfterFunc(ctx, func() { conn.Close() })
}

// connectTimeout bounds making a connection: by the rule, and by the time that
// an attempt may take. 0 is the default.
func (a *attempt) connectTimeout() time.Duration {
	wait := shorter(a.x.rule.timeouts.connect, a.remaining())
	if retry := a.x.filters.Retry; retry != nil {
		wait = shorter(wait, retry.AttemptTimeout)
	}
	return wait
}

// shorter is the smaller of two timeouts, of which 0 is none.
func shorter(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// pickOptions is what balancing may read of this request. For the usual backend
// that is nothing.
func (x *exchange) pickOptions(handle *upstream.Handle) upstream.PickOptions {
	var options upstream.PickOptions
	transport := handle.Transport()
	if transport.Sticky != nil {
		options.Sticky = x.cookie(transport.Sticky.Name)
	}
	if transport.Hash != nil {
		options.Hash, options.HasHash = x.hash(*transport.Hash)
	}
	if transport.Divided {
		x.selectRevision(handle.Release(), &options)
	}
	return options
}

// hash is the number that a request is balanced by. It is the same on every
// replica, so that two edges send a client to the same endpoint. A request
// without the header or cookie has none.
func (x *exchange) hash(key route.HashKey) (uint64, bool) {
	var text string
	switch key.By {
	case route.KeyClient:
		text = x.record.Client.String()
	case route.KeyHost:
		text = x.request.Host
	case route.KeyPath:
		text = x.request.Path
	case route.KeyHeader:
		text, _ = x.Value(key.Name, 0)
	case route.KeyCookie:
		text = x.cookie(key.Name)
	}
	if text == "" {
		return 0, false
	}
	sum := fnv.New64a()
	sum.Write(normalize.Bytes(text))
	return sum.Sum64(), true
}
