package appcmd

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"slipway.dev/slipway/internal/cli/printer"
)

// timeLimit bounds a wait; 0 is without a bound. The cause errTimeout
// distinguishes the timeout from Ctrl-C.
func timeLimit(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, limit, errTimeout)
}

// progress prints the state that a command waits for, one line per change of
// it, to standard error. The callbacks of a watch and of a timer use it at the
// same time, so mu guards w and last.
type progress struct {
	w    io.Writer
	mu   sync.Mutex
	last string
}

// print prints a line unless it repeats the one before: a watch delivers many
// events that change nothing that is shown.
func (p *progress) print(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// The state may alternate between two lines; each change is printed.
	if line == p.last || line == "" {
		return
	}
	p.last = line
	_, _ = fmt.Fprintln(p.w, printer.Printable(line))
}
