// Package workers reuses goroutines: the stack that serving a request needs takes a
// while to grow, and costs more than the request where connections or streams are
// short (decision 0080).
package workers

import (
	"sync"
	"time"
)

const (
	// maxIdle bounds the goroutines that wait.
	maxIdle = 256
	// idlePeriod is how long more of them wait than are needed.
	idlePeriod = time.Second
)

// Pool runs a function for each value, in goroutines that it keeps. No goroutine
// waits without a user: the one who may call Serve.
type Pool[T any] struct {
	run func(T)

	mu    sync.Mutex
	users int
	idle  []chan<- T // workers that wait; the last one has the warmest stack
	// least is the least number of idle workers since the period began: so many
	// were not needed. timer ends the period; nil while no worker is idle.
	least int
	timer *time.Timer
}

// New returns a Pool that calls run.
func New[T any](run func(T)) *Pool[T] { return &Pool[T]{run: run} }

// Serve calls run in an idle worker, or in a new one, and does not wait for it.
func (p *Pool[T]) Serve(value T) {
	p.mu.Lock()
	n := len(p.idle)
	if n == 0 {
		p.mu.Unlock()
		go p.work(value)
		return
	}
	idle := p.idle[n-1]
	p.idle[n-1] = nil
	p.idle = p.idle[:n-1]
	p.least = min(p.least, n-1)
	p.mu.Unlock()
	idle <- value // the channel has room for one
}

// work serves one value after the other until there are enough idle workers.
func (p *Pool[T]) work(value T) {
	next := make(chan T, 1)
	var none T
	for ok := true; ok; value, ok = <-next {
		p.run(value)
		value = none // an idle worker must not keep its last connection in memory
		if !p.park(next) {
			return
		}
	}
}

// park makes a worker an idle one, and reports whether it may wait.
func (p *Pool[T]) park(next chan<- T) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users == 0 || len(p.idle) == maxIdle {
		return false
	}
	p.idle = append(p.idle, next)
	if p.timer == nil {
		p.least, p.timer = 0, time.AfterFunc(idlePeriod, p.endPeriod)
	}
	return true
}

// endPeriod ends the workers that were idle all the time, and begins the next
// period if others are left.
func (p *Pool[T]) endPeriod() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end(min(p.least, len(p.idle)))
	if p.least = len(p.idle); p.least == 0 {
		p.timer = nil
		return
	}
	p.timer = time.AfterFunc(idlePeriod, p.endPeriod)
}

// end ends the first n idle workers, whose stacks are the coldest.
func (p *Pool[T]) end(n int) {
	for _, next := range p.idle[:n] {
		close(next)
	}
	rest := copy(p.idle, p.idle[n:])
	clear(p.idle[rest:])
	p.idle = p.idle[:rest]
}

// AddUser counts one who may call Serve.
func (p *Pool[T]) AddUser() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users++
}

// RemoveUser ends what AddUser began. After the last one all idle workers end, and
// busy ones do when they are done.
func (p *Pool[T]) RemoveUser() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users--; p.users == 0 {
		p.end(len(p.idle)) // which leaves the timer nothing to do
	}
}
