package appcmd

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"slipway.dev/slipway/internal/cli/printer"
)

// timeLimit bounds a wait; 0 is without a bound. The cause tells the timeout
// from Ctrl-C.
func timeLimit(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, limit, errTimeout)
}

// progress prints what a command waits for, one line per change of it.
// Callbacks of a watch and of a timer use it at the same time.
type progress struct {
	w    io.Writer
	mu   sync.Mutex
	last string
}

// say prints a line unless it repeats the one before.
func (p *progress) say(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if line == p.last || line == "" {
		return
	}
	p.last = line
	_, _ = fmt.Fprintln(p.w, printer.Printable(line))
}
