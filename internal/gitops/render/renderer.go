package render

import (
	"context"
	"io"
	"log/slog"
	"time"
)

// Options are how workers run. The zero value is good for production.
type Options struct {
	// Command starts a worker. Without it, it is this program with the argument
	// "render-worker".
	Command []string
	// Workers is how many run at the same time; without it, one for each CPU.
	Workers int
	// Timeout bounds one render; without it a minute.
	Timeout time.Duration
	// MemoryBytes bounds a worker; without it 512 MiB.
	MemoryBytes int64
	// OutputBytes bounds the objects of one render as JSON; without it 16 MiB.
	OutputBytes int64
	// IdleTimeout is how long a worker waits for the next render before it gives
	// its memory back; without it 30 seconds.
	IdleTimeout time.Duration
	Log         *slog.Logger
	// Observe is told of each render that is over. It must be quick.
	Observe func(Outcome)
}

// Outcome is a render that is over.
type Outcome struct {
	App      string
	Duration time.Duration // without the wait for a worker
	Waited   time.Duration // for a worker
	Objects  int
	Bytes    int64 // of the objects as JSON
	Err      error // an *Error, or nil
}

// Renderer renders in workers. It is safe for concurrent use.
type Renderer struct {
	options Options
}

// New makes a Renderer. It starts nothing until there is something to render.
func New(options Options) (*Renderer, error) { return &Renderer{options: options}, nil }

// Render renders a request. An error is an *[Error], or that of the context.
func (r *Renderer) Render(ctx context.Context, request Request) (*Result, error) {
	return nil, &Error{Kind: WorkerDied, Source: -1, Message: "no worker"}
}

// Close ends all workers, and renders that are under way.
func (r *Renderer) Close() error { return nil }

// ServeWorker is what a worker does: it renders what it is asked for until its
// input ends.
func ServeWorker(in io.Reader, out io.Writer) error { return nil }
