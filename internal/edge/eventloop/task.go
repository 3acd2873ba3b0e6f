//go:build linux

package eventloop

import (
	"iter"
	"runtime"
)

// Task is a coroutine of a loop. Its methods are for the code that it runs.
//
// A task belongs to its loop until it leaves, and to its goroutine until it rejoins. The
// hand-over in each direction is ordered by the start of the goroutine and by the inbox of the
// loop, so that none of its fields needs a lock.
type Task struct {
	loop  *Loop
	run   func(*Task)
	next  func() (signal, bool) // switches to the coroutine, until it gives way
	stop  func()                // ends an idle coroutine
	yield func(signal) bool

	away   bool // it runs as a goroutine
	moved  int  // bytes since it was resumed
	waiter waiter
	// runNext makes the task ready. It is made once, so that waking it allocates nothing.
	runNext func(*Loop)
	// parkedBelow is the next in the list of a Cond, whose lock guards it.
	parkedBelow *Task
}

// signal is why a coroutine gives way.
type signal uint8

const (
	signalWait   signal = iota // its waiter resumes it
	signalDone                 // it can run something else
	signalAgain                // to let other tasks run, and look for events
	signalSoon                 // to let the tasks run that are ready
	signalLeave                // it goes on as a goroutine
	signalRejoin               // it is a goroutine, and goes on in its loop
)

// start runs a function as a task. It is called on the loop. Coroutines are kept, because their
// stacks have grown to what a request needs: that takes longer than a short request
// (decision 0070).
func (l *Loop) start(run func(*Task)) { l.startFor(nil, run) }

// startFor is start for a task that a connection is bound to, unless that is nil.
func (l *Loop) startFor(c *Conn, run func(*Task)) {
	var t *Task
	if n := len(l.idle); n > 0 {
		t, l.idle[n-1] = l.idle[n-1], nil
		l.idle = l.idle[:n-1]
		l.least = min(l.least, n-1)
	} else {
		t = &Task{loop: l}
		t.waiter.task = t
		t.runNext = func(l *Loop) { l.ready = append(l.ready, t) }
		t.next, t.stop = iter.Pull(t.body)
	}
	l.tasks++
	t.run = run
	if c != nil {
		c.task = t
	}
	l.ready = append(l.ready, t)
}

// body is the coroutine. It runs one function after the other.
func (t *Task) body(yield func(signal) bool) {
	t.yield = yield
	for ok := true; ok; ok = yield(signalDone) {
		t.run(t)
		t.run = nil // an idle task must not keep its last connection in memory
	}
}

// resume switches to a task, until it waits. A task that waits is not in any list of the loop:
// the side that it waits for has its waiter, and the event puts it into ready once.
func (l *Loop) resume(t *Task) {
	t.moved = 0
	switch why, _ := t.next(); why {
	case signalDone:
		l.finish(t)
	case signalAgain:
		l.again = append(l.again, t)
	case signalSoon:
		l.ready = append(l.ready, t)
	case signalLeave:
		t.away = true
		go t.drive()
	}
}

// finish keeps a task that has ended for the next one.
func (l *Loop) finish(t *Task) {
	l.tasks--
	if len(l.idle) < maxIdleTasks {
		l.idle = append(l.idle, t)
		return
	}
	t.stop()
}

// trim ends the tasks that were idle for a whole period. The first ones are the coldest.
func (l *Loop) trim(now int64) {
	switch {
	case len(l.idle) == 0:
		l.trimAt = 0
		return
	case l.trimAt == 0:
	case now < l.trimAt:
		return
	default:
		for _, t := range l.idle[:l.least] {
			t.stop()
		}
		kept := copy(l.idle, l.idle[l.least:])
		clear(l.idle[kept:])
		l.idle = l.idle[:kept]
	}
	l.least, l.trimAt = len(l.idle), now+idlePeriod
}

// drive runs a task as a goroutine, where its waits are those of goroutines. The coroutine is
// the same, with its stack and everything on it; only who switches to it is another one.
func (t *Task) drive() {
	why, _ := t.next()
	t.away = false
	t.loop.post(func(l *Loop) {
		if why == signalDone {
			l.finish(t)
			return
		}
		l.ready = append(l.ready, t)
	})
}

// Leave makes the task a goroutine, which may block and compute as any other. Its connections
// stay those of the loop, which then wakes goroutines in place of the task.
func (t *Task) Leave() {
	if !t.away {
		t.yield(signalLeave)
	}
}

// Rejoin ends what Leave began. No other goroutine may use the connections of the task then.
func (t *Task) Rejoin() {
	if t.away {
		t.yield(signalRejoin)
	}
}

// Park waits until Unpark is called. It is for what is not a connection: the caller registers the
// task, under a lock of its own, with the one who calls Unpark for it, once for each Park.
// A task that is away must not park.
func (t *Task) Park() { t.yield(signalWait) }

// Unpark ends a Park, which may be about to begin. It is called on any goroutine.
func (t *Task) Unpark() { t.loop.post(t.runNext) }

// unpark is Unpark by another task. One of the same loop needs no lock and no wake-up.
func (t *Task) unpark(by *Task) {
	if by.OnLoop() && by.loop == t.loop {
		t.loop.ready = append(t.loop.ready, t)
		return
	}
	t.Unpark()
}

// Yield lets the tasks that are ready run first. As a goroutine it lets others run.
func (t *Task) Yield() {
	if t.away {
		runtime.Gosched()
		return
	}
	t.yield(signalSoon)
}

// Start begins another task on the same loop. It runs when this one waits.
func (t *Task) Start(run func(*Task)) {
	if t.away {
		t.loop.Start(run)
		return
	}
	t.loop.start(run)
}

// Start begins a task. It is called on any goroutine.
func (l *Loop) Start(run func(*Task)) {
	l.post(func(l *Loop) { l.start(run) })
}

// OnLoop reports whether the caller, which is the task, runs on its loop. No task does not.
func (t *Task) OnLoop() bool { return t != nil && !t.away }

// Away reports whether the task runs as a goroutine.
func (t *Task) Away() bool { return t.away }

// Loop is the loop of the task.
func (t *Task) Loop() *Loop { return t.loop }

// What a task moves bounds how long it runs: bytes that are there cost no wait. A request with a
// body of a few hundred kilobytes passes in one turn, and a download of gigabytes gives way
// to everything else some thousand times.

// account counts bytes that were moved, and gives way to other tasks after many. A task that is
// away holds up none, and may have several goroutines that move bytes.
func (t *Task) account(n int) {
	if t.away {
		return
	}
	if t.moved += n; t.moved > maxMoved {
		t.yield(signalAgain)
	}
}

// maxMoved is how many bytes a task moves before others have their turn.
const maxMoved = 256 << 10

// waiter is what waits for one side of a connection: a task, a goroutine, a function that
// begins a task, or one that is called between tasks.
type waiter struct {
	task   *Task
	parked chan struct{} // of a goroutine; it has room for one
	begin  func(*Task)
	conn   *Conn // what the new task is bound to
	step   func()
}

// isReady is the state of a side that need not be waited for.
var isReady = new(waiter)

// park waits until wake is called. Each wake belongs to one park: who takes a waiter out
// of the state of a side is the only one who wakes it.
func (w *waiter) park() {
	if w.task != nil {
		w.task.yield(signalWait)
		return
	}
	<-w.parked
}

// wake ends the wait. on is the loop that runs the caller, nil for a goroutine.
func (w *waiter) wake(of, on *Loop) {
	switch {
	case w.task != nil && w.task.loop == on:
		on.ready = append(on.ready, w.task)
	case w.task != nil:
		w.task.Unpark()
	case w.step != nil && of == on:
		on.steps = append(on.steps, w.step)
	case w.step != nil:
		of.post(func(l *Loop) { l.steps = append(l.steps, w.step) })
	case w.begin != nil && of == on:
		on.startFor(w.conn, w.begin)
	case w.begin != nil:
		of.post(func(l *Loop) { l.startFor(w.conn, w.begin) })
	default:
		w.parked <- struct{}{}
	}
}
