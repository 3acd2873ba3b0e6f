//go:build linux

package eventloop

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxEvents is how many events one wait takes.
	maxEvents = 256
	// maxIdleTasks bounds the coroutines that a loop keeps, with their stacks.
	maxIdleTasks = 256
	// idlePeriod is how long more of them are kept than are needed.
	idlePeriod = int64(time.Second)
)

// Group is a number of loops, which share the connections.
type Group struct {
	loops   []*Loop
	next    atomic.Uint32
	running sync.WaitGroup
}

// New starts a number of loops.
func New(count int) (*Group, error) {
	g := &Group{}
	for range count {
		l, err := newLoop(g)
		if err != nil {
			g.Close()
			return nil, err
		}
		l.index = len(g.loops)
		g.loops = append(g.loops, l)
		g.running.Go(l.run)
	}
	return g, nil
}

// Close ends the loops once their tasks have ended. Connections that are left can only be
// closed afterwards.
func (g *Group) Close() {
	for _, l := range g.loops {
		l.closing.Store(true)
		l.wake()
	}
	g.running.Wait()
}

// quietest returns the loop with the fewest connections: with as many, the first choice.
func (g *Group) quietest(first *Loop) *Loop {
	best, fewest := first, first.conns.Load()
	for _, l := range g.loops {
		// A hand-over costs a wake-up: a small difference is not worth it.
		if n := l.conns.Load(); n+n/8+2 < fewest {
			best, fewest = l, n
		}
	}
	return best
}

// Loop is one thread of execution. Everything without a comment belongs to it.
type Loop struct {
	group *Group
	index int
	epoll int
	event int // an eventfd, which ends the wait
	epoch time.Time

	table  table // of connections, by what epoll returns
	events [maxEvents]unix.EpollEvent
	ready  []*Task  // run in this order
	again  []*Task  // gave way to others, and run after the next wait
	steps  []func() // of watched connections, which run before the tasks
	shared []byte   // what ReadShared returns a part of
	idle   []*Task
	// least is the least number of idle tasks since the period began that ends at trimAt, when so
	// many end, which were not needed. trimAt is 0 while there are none.
	least  int
	trimAt int64
	tasks  int // that have begun and not ended, also while they are away

	// waits counts the waits whose events have been dispatched.
	waits    atomic.Uint64
	conns    atomic.Int64
	sleeping atomic.Bool // in a wait that wake has to end
	closing  atomic.Bool

	mu     sync.Mutex // guards the rest
	inbox  []func(*Loop)
	spare  []func(*Loop) // the inbox before, for its memory
	wheel  wheel
	wakeAt int64 // when the wait ends by itself, while sleeping; 0 for never
}

func newLoop(g *Group) (*Loop, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create an event loop: %w", err)
	}
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err == nil {
		err = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, event, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: wakeSlot})
	}
	if err != nil {
		_ = unix.Close(epoll)
		return nil, fmt.Errorf("create an event loop: %w", err)
	}
	return &Loop{group: g, epoll: epoll, event: event, epoch: time.Now()}, nil
}

// Index is the number of the loop in its group, from 0.
func (l *Loop) Index() int { return l.index }

// now is the time since the loop began; never 0.
func (l *Loop) now() int64 { return int64(time.Since(l.epoch)) + 1 }

// run waits for events and runs the tasks that they wake, until the loop is closed.
//
// The order of a turn matters. All events are dispatched before any task runs, so that a
// task which closes a connection, or lends an idle one, has heard of whatever the kernel knew
// when the turn began. What other goroutines posted comes next, because it may wake
// tasks as well. Steps are short, so tasks wait for them. Tasks that gave way to others come first
// of all tasks: they have waited for a turn.
func (l *Loop) run() {
	for !l.ended() {
		l.dispatch(l.wait())
		l.waits.Add(1)
		l.takeInbox()
		l.ready = append(l.ready, l.again...)
		clear(l.again)
		l.again = l.again[:0]
		for i := 0; i < len(l.steps); i++ { // a step may watch a connection that is ready
			l.steps[i]()
		}
		clear(l.steps)
		l.steps = l.steps[:0]
		for i := 0; i < len(l.ready); i++ { // a task may wake another one
			l.resume(l.ready[i])
		}
		clear(l.ready)
		l.ready = l.ready[:0]
	}
	for _, t := range l.idle {
		t.stop()
	}
	_, _ = unix.Close(l.event), unix.Close(l.epoll)
}

// ended reports whether the loop is closed and nothing runs on it. A task that is away is
// counted until it is back, because its end is posted to the loop.
func (l *Loop) ended() bool {
	if !l.closing.Load() || l.tasks > 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.inbox) == 0
}

// wait returns the next events. It does not sleep while there is something to run.
//
// The first look does not sleep, and so need not be announced to Go's scheduler: under load
// there is nearly always an event. Only when there is none the loop prepares to sleep,
// which the others have to know of before it looks for the last time.
func (l *Loop) wait() []unix.EpollEvent {
	timeout := 0
	if len(l.again) == 0 {
		if n := epollWait(l.epoll, l.events[:], 0); n != 0 {
			return l.events[:max(n, 0)]
		}
		timeout = l.prepareSleep()
	}
	n := epollWait(l.epoll, l.events[:], timeout)
	l.sleeping.Store(false)
	return l.events[:max(n, 0)]
}

// prepareSleep returns how long the loop may sleep, in milliseconds: -1 until an event comes.
// It sets sleeping before it reads what others change. Who changes it looks at sleeping
// afterwards, so that one of the two sees the other and no change is slept through.
func (l *Loop) prepareSleep() int {
	l.sleeping.Store(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wakeAt = 0
	switch {
	case len(l.inbox) > 0, l.closing.Load() && l.tasks == 0:
		return 0
	case l.wheel.empty() && len(l.idle) == 0:
		return -1
	}
	if !l.wheel.empty() {
		l.wakeAt = l.wheel.next()
	}
	l.trim(l.now())
	if l.trimAt != 0 && (l.wakeAt == 0 || l.trimAt < l.wakeAt) {
		l.wakeAt = l.trimAt
	}
	return int(max(0, l.wakeAt-l.now()+int64(time.Millisecond)-1) / int64(time.Millisecond))
}

// wake ends the wait of the loop, if it is in one. Of several goroutines that want to, one
// writes: the others find that the loop is awake, or about to be.
func (l *Loop) wake() {
	if l.sleeping.Load() && l.sleeping.Swap(false) {
		one := [8]byte{1}
		_, _ = unix.Write(l.event, one[:]) // it can only be full, which wakes too
	}
}

// post runs a function on the loop. It is how everything else reaches a loop, whose own state
// has no lock. Functions that one goroutine posts run in their order.
func (l *Loop) post(f func(*Loop)) {
	l.mu.Lock()
	l.inbox = append(l.inbox, f)
	l.mu.Unlock()
	l.wake()
}

// takeInbox runs what was posted, and ends the waits whose deadlines have passed. The functions run
// without the lock, because they may post others; those wait for the next turn.
func (l *Loop) takeInbox() {
	now := l.now()
	l.mu.Lock()
	posted := l.inbox
	if len(posted) > 0 {
		l.inbox, l.spare = l.spare[:0], nil
	}
	l.trim(now)
	if l.wheel.due(now) {
		l.wheel.advance(now, func(c *Conn) int64 { return c.expire(now) })
	}
	l.mu.Unlock()
	if len(posted) == 0 {
		return
	}
	for _, f := range posted {
		f(l)
	}
	clear(posted)
	l.mu.Lock()
	l.spare = posted[:0]
	l.mu.Unlock()
}

// dispatch marks connections as ready, which wakes the tasks that wait for them.
func (l *Loop) dispatch(events []unix.EpollEvent) {
	for i := range events {
		event := &events[i]
		switch event.Fd {
		case wakeSlot:
			var count [8]byte
			_, _ = unix.Read(l.event, count[:])
		default:
			if entry := l.table.find(event.Fd, event.Pad); entry != nil {
				entry.happened(event.Events, l)
			}
		}
	}
}

// epollWait waits up to timeout milliseconds, without a limit if that is negative. It does
// not tell Go's scheduler about a wait that does not sleep.
func epollWait(epoll int, events []unix.EpollEvent, timeout int) int {
	if timeout == 0 {
		return pollEvents(epoll, events)
	}
	n, err := unix.EpollWait(epoll, events, timeout)
	if err != nil && !errors.Is(err, unix.EINTR) {
		panic(fmt.Sprintf("eventloop: epoll_wait: %v", err)) // the descriptor is ours: it cannot fail
	}
	return n
}
