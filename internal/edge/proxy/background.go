package proxy

import (
	"context"
	"sync"
	"sync/atomic"
)

// backgroundTasks are the mirrored requests, which outlive the exchanges that
// started them. Close ends them all.
type backgroundTasks struct {
	stop   context.Context // ends with Close
	cancel context.CancelFunc

	// mu orders start against close: no task starts after close has begun to
	// wait.
	mu            sync.Mutex
	running       sync.WaitGroup
	mirrors       atomic.Int64
	sent, dropped atomic.Uint64
}

// start counts a task, unless limit of them run or the Proxy is closing. Every
// start that returns true is followed by an end.
func (t *backgroundTasks) start(limit int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stop.Err() != nil || t.mirrors.Load() >= int64(limit) {
		return false
	}
	t.mirrors.Add(1)
	t.running.Add(1)
	return true
}

func (t *backgroundTasks) end() {
	t.mirrors.Add(-1)
	t.running.Done()
}

// close cancels the tasks and waits for them.
func (t *backgroundTasks) close() {
	t.mu.Lock()
	t.cancel()
	t.mu.Unlock()
	t.running.Wait()
}
