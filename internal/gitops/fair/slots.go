package fair

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// ErrClosed is returned to those that wait for a slot when Slots is closed.
var ErrClosed = errors.New("no more slots are given")

// Slots bounds how many jobs run at a time.
type Slots struct {
	most int // of one project

	mu     sync.Mutex
	free   int
	closed bool
	turns  turns[chan error]
}

// NewSlots returns slots of which one project has most at a time.
func NewSlots(count, most int) *Slots {
	return &Slots{free: count, most: most, turns: newTurns[chan error]()}
}

// Acquire waits for a slot. The caller calls Release with the same project,
// unless there is an error.
func (s *Slots) Acquire(ctx context.Context, project string) error {
	granted, err := s.request(project)
	if granted == nil {
		return err
	}
	select {
	case err := <-granted:
		return err
	case <-ctx.Done():
		return s.giveUp(project, granted, ctx.Err())
	}
}

// request takes a slot, or returns what to wait for. While a slot is free, all
// that wait are of projects that have as many as they may: nothing is overtaken.
func (s *Slots) request(project string) (granted chan error, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	if share := s.turns.of(project); s.free > 0 && share.held < s.most {
		s.free--
		s.turns.hold(share)
		return nil, nil
	}
	granted = make(chan error, 1)
	s.turns.push(project, granted)
	return granted, nil
}

// giveUp stops waiting, and gives back a slot that was granted at that moment.
func (s *Slots) giveUp(project string, granted chan error, cause error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case err := <-granted:
		if err == nil {
			s.release(project)
		}
	default:
		share := s.turns.of(project)
		share.waiting = slices.DeleteFunc(share.waiting, func(other chan error) bool { return other == granted })
		s.turns.drop(project, share)
	}
	return cause
}

// Release gives a slot back, and to the project whose turn it is.
func (s *Slots) Release(project string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(project)
}

// release is Release with the lock held.
func (s *Slots) release(project string) {
	s.turns.release(project)
	s.free++
	for s.free > 0 {
		granted, _, found := s.turns.pop(s.most)
		if !found {
			return
		}
		s.free--
		granted <- nil
	}
}

// Close wakes all that wait with [ErrClosed]. Slots that were given can be
// released.
func (s *Slots) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for project, share := range s.turns.shares {
		for _, granted := range share.waiting {
			granted <- ErrClosed
		}
		share.waiting = nil
		s.turns.drop(project, share)
	}
}
