package h2

import "sync"

// maxIdle bounds the goroutines that wait for a request.
const maxIdle = 256

// workers are goroutines that serve requests. They are used again: what serves a
// request needs a stack that takes a while to grow.
type workers struct {
	mu   sync.Mutex
	open int              // connections; without any, nobody waits
	idle []chan<- *stream // those that wait; the last one is the warmest
}

// serve has a request be served.
func (w *workers) serve(s *stream) {
	w.mu.Lock()
	n := len(w.idle)
	if n == 0 {
		w.mu.Unlock()
		go w.work(s)
		return
	}
	idle := w.idle[n-1]
	w.idle[n-1] = nil
	w.idle = w.idle[:n-1]
	w.mu.Unlock()
	idle <- s // there is room for one
}

// work serves one request after the other, as long as there are any.
func (w *workers) work(s *stream) {
	next := make(chan *stream, 1)
	for ok := true; ok; s, ok = <-next {
		s.run()
		s = nil
		if !w.rest(next) {
			return
		}
	}
}

// rest waits for the next request, if it may.
func (w *workers) rest(next chan<- *stream) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open == 0 || len(w.idle) == maxIdle {
		return false
	}
	w.idle = append(w.idle, next)
	return true
}

// enter counts a connection.
func (w *workers) enter() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open++
}

// leave ends the count of one. After the last one nobody waits any more.
func (w *workers) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open--; w.open > 0 {
		return
	}
	for _, next := range w.idle {
		close(next)
	}
	clear(w.idle)
	w.idle = w.idle[:0]
}
