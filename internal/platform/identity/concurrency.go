package identity

import (
	"context"
	"time"

	"connectrpc.com/connect"
)

const (
	// queueTimeout bounds how long a sign-in waits for a slot.
	queueTimeout = 10 * time.Second
	// queueSize bounds how many sign-ins wait for a slot.
	queueSize = 64
)

// concurrencyLimit bounds how many sign-ins run at once, so that they cannot exhaust the
// memory, and the queue of those that wait.
type concurrencyLimit struct {
	running chan struct{}
	waiting chan struct{}
}

// newConcurrencyLimit returns a limit for a number of concurrent sign-ins.
func newConcurrencyLimit(concurrent int) concurrencyLimit {
	return concurrencyLimit{running: make(chan struct{}, concurrent), waiting: make(chan struct{}, queueSize)}
}

// acquire waits for a slot. It fails at once when the queue is full.
func (l concurrencyLimit) acquire(ctx context.Context) (done func(), err error) {
	busy := &DeniedError{Code: connect.CodeResourceExhausted, Reason: "too many concurrent sign-ins; retry in a few seconds", RetryAfter: 5 * time.Second}
	// The queue is bounded: further sign-ins fail immediately instead of
	// piling up.
	select {
	case l.waiting <- struct{}{}:
		defer func() { <-l.waiting }()
	default:
		return nil, busy
	}
	ctx, cancel := context.WithTimeoutCause(ctx, queueTimeout, busy)
	defer cancel()
	select {
	case l.running <- struct{}{}:
		return func() { <-l.running }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
