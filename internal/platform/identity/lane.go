package identity

import (
	"context"
	"time"

	"connectrpc.com/connect"
)

const (
	// laneWait bounds how long a sign-in waits for its lane.
	laneWait = 10 * time.Second
	// laneQueue bounds how many sign-ins wait in a lane.
	laneQueue = 64
)

// lane bounds how many sign-ins run at once, so that they cannot exhaust the
// memory, and the queue of those that wait.
type lane struct {
	running chan struct{}
	waiting chan struct{}
}

// newLane returns a lane for a number of concurrent sign-ins.
func newLane(concurrent int) lane {
	return lane{running: make(chan struct{}, concurrent), waiting: make(chan struct{}, laneQueue)}
}

// acquire waits for a slot. It fails at once when the queue is full.
func (l lane) acquire(ctx context.Context) (done func(), err error) {
	busy := &DeniedError{Code: connect.CodeResourceExhausted, Reason: "too many concurrent sign-ins; retry in a few seconds", RetryAfter: 5 * time.Second}
	// The queue is bounded: further sign-ins fail immediately instead of
	// piling up.
	select {
	case l.waiting <- struct{}{}:
		defer func() { <-l.waiting }()
	default:
		return nil, busy
	}
	ctx, cancel := context.WithTimeoutCause(ctx, laneWait, busy)
	defer cancel()
	select {
	case l.running <- struct{}{}:
		return func() { <-l.running }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
