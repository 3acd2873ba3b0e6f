package h2

import "sync"

// maxIdle bounds the goroutines that wait for a request.
const maxIdle = 256

// workers are goroutines that serve requests. They are reused: the stack that
// serving a request needs takes a while to grow.
type workers struct {
	mu    sync.Mutex
	conns int              // open connections; without any, no worker waits
	idle  []chan<- *stream // workers that wait; the last one has the warmest stack
}

// serve serves a request in an idle worker, or in a new one.
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
	idle <- s // the channel has room for one
}

// work serves one request after the other until there are enough idle workers.
func (w *workers) work(s *stream) {
	next := make(chan *stream, 1)
	for ok := true; ok; s, ok = <-next {
		s.run()
		s = nil // an idle worker must not keep its last connection in memory
		if !w.park(next) {
			return
		}
	}
}

// park makes a worker an idle one, and reports whether it may wait.
func (w *workers) park(next chan<- *stream) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conns == 0 || len(w.idle) == maxIdle {
		return false
	}
	w.idle = append(w.idle, next)
	return true
}

// addConn counts an open connection.
func (w *workers) addConn() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns++
}

// removeConn counts a closed connection. After the last one all idle workers
// end.
func (w *workers) removeConn() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conns--; w.conns > 0 {
		return
	}
	for _, next := range w.idle {
		close(next)
	}
	clear(w.idle)
	w.idle = w.idle[:0]
}
