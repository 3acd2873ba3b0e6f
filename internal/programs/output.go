package programs

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
)

// Output collects what a process writes, and can be read meanwhile. The zero
// value is empty. mu guards the fields.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
	// more is closed by the next Write; nil if no wait needs it.
	more chan struct{}
}

// Write appends text and wakes every wait. It takes everything, so that the
// process never blocks on a full pipe.
func (o *Output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.more != nil {
		close(o.more)
		o.more = nil
	}
	return o.text.Write(text)
}

// String returns everything that was written so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// WaitFor waits until a text was written, at any place, and fails the test
// after Patience. It waits for events and does not poll.
func (o *Output) WaitFor(t testing.TB, want string) {
	t.Helper()
	if err := o.await(nil, func(text string) bool { return strings.Contains(text, want) }); err != nil {
		t.Fatalf("there is no %q in %q: %v", want, Tail(o.String()), err)
	}
}

// await waits until holds is true of the text. It fails when ended is closed
// before, and after Patience.
func (o *Output) await(ended <-chan struct{}, holds func(text string) bool) error {
	late := time.NewTimer(Timeout)
	defer late.Stop()
	for {
		o.mu.Lock()
		if o.more == nil {
			o.more = make(chan struct{})
		}
		// The channel is taken under the same lock as the text: a Write after
		// this closes it, so no wake-up is lost.
		text, more := o.text.String(), o.more
		o.mu.Unlock()
		if holds(text) {
			return nil
		}
		select {
		case <-more:
		case <-ended:
			// The last lines may have come between the check and the exit.
			if holds(o.String()) {
				return nil
			}
			return errors.New("the process has ended")
		case <-late.C:
			return errors.New("nothing happened within " + Timeout.String())
		}
	}
}
