package render

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"time"

	"slipway.dev/slipway/internal/gitops/fair"
	"slipway.dev/slipway/internal/gitops/tree"
)

// Options are how workers run. The zero value is good for production.
type Options struct {
	// Command starts a worker. Without it, it is this program with the argument
	// "render-worker".
	Command []string
	// Workers is how many run at the same time; without it, one for each CPU.
	// Projects that wait for one take turns.
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
	// Observe is called after each render, for metrics. It must not block.
	Observe func(Outcome)
}

// withDefaults fills in what is zero.
func (o Options) withDefaults() Options {
	if len(o.Command) == 0 {
		o.Command = []string{program(), "render-worker"}
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Timeout <= 0 {
		o.Timeout = time.Minute
	}
	if o.MemoryBytes <= 0 {
		o.MemoryBytes = 512 << 20
	}
	if o.OutputBytes <= 0 {
		o.OutputBytes = 16 << 20
	}
	if o.IdleTimeout <= 0 {
		o.IdleTimeout = 30 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Observe == nil {
		o.Observe = func(Outcome) {}
	}
	return o
}

// Outcome is a render that is over.
type Outcome struct {
	App      string
	Duration time.Duration // without the wait for a worker
	Waited   time.Duration // for a worker
	Objects  int
	Bytes    int64 // of the objects as JSON
	Err      error // an *Error, that of the context, or nil
}

// Renderer renders in workers. It is safe for concurrent use.
type Renderer struct {
	options       Options
	folder        string      // empty, where workers run
	slots         *fair.Slots // for renders
	inputSlots    *fair.Slots // for indexes and ApplicationSets
	scriptSlots   *fair.Slots // for scripts: they wait for no server, and others wait for them
	analysisSlots *fair.Slots // for measurements of analysis runs
	noticeSlots   *fair.Slots // for triggers and messages of notifications
	missingLogged sync.Once
	ended         sync.WaitGroup // workers that run

	mu   sync.Mutex
	idle []*process
	all  map[*process]bool
	// closed: no worker is started any more.
	closed bool
}

// New makes a Renderer. It starts nothing until there is something to render.
func New(options Options) (*Renderer, error) {
	options = options.withDefaults()
	if least := int64(64 << 20); options.MemoryBytes < least {
		return nil, fmt.Errorf("a worker needs at least %d bytes of memory, and is given %d", least, options.MemoryBytes)
	}
	r := &Renderer{
		options: options, slots: fair.NewSlots(options.Workers, options.Workers), inputSlots: fair.NewSlots(inputWorkers, inputWorkers),
		scriptSlots: fair.NewSlots(1, 1), analysisSlots: fair.NewSlots(1, 1), noticeSlots: fair.NewSlots(1, 1),
		all: map[*process]bool{},
	}
	// Workers read and write no files; this is where they would begin to look.
	folder, err := os.MkdirTemp("", "slipway-render-")
	if err != nil {
		folder = "/"
	}
	r.folder = folder
	return r, nil
}

// errClosed is returned by renders after Close.
var errClosed = errors.New("the renderer is closed")

// renderOnce renders a request with the dependencies that it has.
func (r *Renderer) renderOnce(ctx context.Context, request *Request) (*Result, error) {
	began := time.Now()
	outcome := Outcome{App: request.App}
	if err := waitForSlot(ctx, r.slots, request.Project); err != nil {
		return nil, err
	}
	defer r.slots.Release(request.Project)
	outcome.Waited = time.Since(began)
	// The time in the queue is not part of Duration, so that a busy renderer
	// does not look like a slow template.
	var rendering *renderTask
	bytes, err := r.attempt(ctx, func() task {
		rendering = newRenderTask(request)
		return rendering
	})
	outcome.Duration, outcome.Err, outcome.Bytes = time.Since(began)-outcome.Waited, err, bytes
	var result *Result
	if err == nil {
		result = &rendering.result
		outcome.Objects = len(result.Objects)
	}
	if missingOf(err) == nil {
		r.options.Observe(outcome)
	}
	return result, err
}

// inputWorkers is how many jobs run at a time that are no renders. They have
// slots of their own: an ApplicationSet waits for Git while it has a worker, and
// must not keep Applications from being rendered.
const inputWorkers = 2

// waitForSlot takes a slot for a project. A slot limits the jobs, not the
// workers: idle ones cost memory only.
func waitForSlot(ctx context.Context, slots *fair.Slots, project string) error {
	err := slots.Acquire(ctx, project)
	if errors.Is(err, fair.ErrClosed) {
		return &Error{Kind: WorkerDied, Source: -1, Message: errClosed.Error(), Err: errClosed}
	}
	return err
}

// attempt runs a task, and retries once if an idle worker turns out to have exited:
// the kernel's OOM killer may have ended it while it was idle. A fresh worker
// is not retried: a request that ends it at once would end every other one too.
// begin makes the task of each attempt. The result is the size of the output.
func (r *Renderer) attempt(ctx context.Context, begin func() task) (int64, error) {
	for {
		worker, fresh, err := r.acquire(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return 0, ctx.Err()
			}
			return 0, &Error{Kind: WorkerDied, Source: -1, Message: "a worker cannot be started: " + err.Error(), Err: err}
		}
		session := newSession(worker, begin(), &r.options)
		err = session.run(ctx)
		r.release(ctx, worker, session.usable)
		if err != nil && !session.responded && !fresh && ctx.Err() == nil {
			continue
		}
		if err != nil && ctx.Err() != nil {
			err = ctx.Err()
		}
		return session.bytes, err
	}
}

// acquire is a worker that waits, or a new one. A worker is started without the
// lock held, which can take a while, and Close may have come in between: it is
// killed then.
func (r *Renderer) acquire(ctx context.Context) (worker *process, fresh bool, err error) {
	r.mu.Lock()
	for len(r.idle) > 0 && worker == nil {
		// The most recently used worker goes first, so that others reach their
		// idle timeout.
		last := len(r.idle) - 1
		worker = r.idle[last]
		r.idle = r.idle[:last]
		if !worker.idleTimer.Stop() {
			worker = nil // it is being ended
		}
	}
	closed := r.closed
	r.mu.Unlock()
	switch {
	case closed:
		return nil, false, errClosed
	case worker != nil:
		return worker, false, nil
	}
	worker, err = startProcess(ctx, &r.options, r.folder)
	if err != nil {
		return nil, false, err
	}
	r.missingLogged.Do(func() { r.logMissing(worker) })
	r.mu.Lock()
	closed = r.closed
	if !closed {
		r.all[worker] = true
		r.ended.Add(1)
	}
	r.mu.Unlock()
	if closed {
		worker.kill()
		return nil, false, errClosed
	}
	return worker, true, nil
}

// logMissing logs once what workers are not protected by.
func (r *Renderer) logMissing(worker *process) {
	if len(worker.missing) > 0 {
		r.options.Log.Info("render workers run without some protections", "missing", worker.missing)
	}
}

// maxRenders is the number of renders after which a worker is replaced, so that
// caches of libraries do not grow without bound.
const maxRenders = 1000

// release puts a worker back, or ends it. It is called for every acquired
// worker, whether the render has succeeded or not. It waits for the end of one that
// it ends: the slot is still taken, so that the next worker never adds its memory.
func (r *Renderer) release(ctx context.Context, worker *process, usable bool) {
	if r.keep(worker, usable) {
		return
	}
	select {
	case <-worker.exited:
	case <-ctx.Done():
	}
}

// keep puts a worker back if it can be used again, and ends it otherwise.
func (r *Renderer) keep(worker *process, usable bool) bool {
	worker.renders++
	r.mu.Lock()
	defer r.mu.Unlock()
	// A worker with much memory is replaced: Go gives it back slowly.
	if !usable || r.closed || worker.renders >= maxRenders || worker.memory() > r.options.MemoryBytes/4 {
		r.stopWorker(worker)
		return false
	}
	worker.idleTimer = time.AfterFunc(r.options.IdleTimeout, func() { r.expire(worker) })
	r.idle = append(r.idle, worker)
	return true
}

// expire ends a worker that has waited for too long. acquire stops the timer
// under the same lock: a worker is either used again or expired, never both.
func (r *Renderer) expire(worker *process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, waiting := range r.idle {
		if waiting == worker {
			r.idle = append(r.idle[:i], r.idle[i+1:]...)
			break
		}
	}
	r.stopWorker(worker)
}

// stopWorker kills a worker. The lock is held.
func (r *Renderer) stopWorker(worker *process) {
	if r.all[worker] {
		delete(r.all, worker)
		worker.kill()
		go func() {
			<-worker.exited
			r.ended.Done()
		}()
	}
}

// Close ends all workers, and renders that are under way. It returns when the
// processes are gone. Closing twice is allowed for the workers; the second call
// reports the missing folder.
func (r *Renderer) Close() error {
	r.mu.Lock()
	r.closed = true
	r.slots.Close()
	r.inputSlots.Close()
	r.scriptSlots.Close()
	r.analysisSlots.Close()
	r.noticeSlots.Close()
	for _, worker := range r.idle {
		worker.idleTimer.Stop()
	}
	r.idle = nil
	for worker := range r.all {
		r.stopWorker(worker)
	}
	r.mu.Unlock()
	r.ended.Wait()
	if r.folder == "/" {
		return nil
	}
	return os.Remove(r.folder)
}

// newViews begins to read the files of each input, and then of each dependency.
func newViews(request *Request) []*tree.View {
	limits := request.Limits.Files
	if limits == (tree.Limits{}) {
		limits = tree.DefaultLimits()
	}
	views := make([]*tree.View, 0, len(request.Inputs)+len(request.Dependencies))
	for i := range request.Inputs {
		view := tree.NewView(request.Inputs[i].Store, limits)
		if !request.Inputs[i].OnlyFiles() {
			view.Within(request.Inputs[i].folder())
		}
		views = append(views, view)
	}
	for i := range request.Dependencies {
		view := tree.NewView(request.Dependencies[i].Store, limits)
		view.Within("")
		views = append(views, view)
	}
	return views
}
