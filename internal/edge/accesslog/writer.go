package accesslog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// The bounds of the queue. A line that exceeds them is dropped, never waited for.
const (
	// maxBytes bounds the queue in bytes too, because clients can cause long lines.
	maxBytes = 16 << 20
	// batchBytes is the size of a batch that is written without waiting for the
	// flush interval.
	batchBytes = 64 << 10
	// keptBytes bounds the memory that an empty queue keeps.
	keptBytes = 1 << 20
	// logPeriod is the least time between two messages about a file that cannot
	// be written.
	logPeriod = time.Minute
)

// writer is the queue and the goroutine that writes it out. The queue is bytes:
// putting a line into it is a copy under mu, which is never held during a write.
// Two buffers alternate, one being filled and one being written.
type writer struct {
	path     string
	maxLines int
	interval time.Duration
	log      *slog.Logger

	// mu guards the queue: waiting holds whole lines, lines is their number. closed
	// drops later lines.
	mu      sync.Mutex
	waiting []byte
	lines   int
	closed  bool

	// The counters are read by metrics without mu.
	written, dropped, failed atomic.Uint64

	// wake has room for one signal, so that put never blocks. reopens hands a
	// request to the goroutine, which owns the file; done is closed when it ends.
	wake    chan struct{}
	reopens chan chan error
	stop    chan struct{}
	done    chan struct{}

	// file is the open log file, nil for stdout.
	file   atomic.Pointer[os.File]
	stdout io.Writer

	// The fields below belong to the goroutine alone.
	// spare is the buffer that is not being filled.
	spare    []byte
	torn     bool // the last write ended within a line
	loggedAt time.Time
}

// newWriter opens the file and starts the goroutine.
func newWriter(options Options) (*writer, error) {
	w := &writer{
		path: options.FilePath, maxLines: options.BufferingSize, interval: options.FlushInterval, log: options.Log,
		wake: make(chan struct{}, 1), reopens: make(chan chan error), stop: make(chan struct{}), done: make(chan struct{}),
		stdout: options.Stdout,
	}
	if w.maxLines <= 0 {
		w.maxLines = defaultLines
	}
	if w.interval <= 0 {
		w.interval = defaultInterval
	}
	if w.path != "" {
		file, err := openLog(w.path)
		if err != nil {
			return nil, err
		}
		w.file.Store(file)
	}
	go w.run()
	return w, nil
}

// openLog opens a file to append to. It does not wait for the other end of a
// named pipe, which may never come.
func openLog(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY|syscall.O_NONBLOCK, 0o640)
	if err != nil {
		return nil, fmt.Errorf("open the access log: %w: check accessLog.filePath", err)
	}
	return file, nil
}

// put queues a line. A line that does not fit is dropped and counted: requests
// never wait for the disk.
func (w *writer) put(line []byte) {
	// mu is held for a copy only.
	w.mu.Lock()
	if w.closed || w.lines >= w.maxLines || len(w.waiting)+len(line) > maxBytes {
		w.mu.Unlock()
		w.dropped.Add(1)
		return
	}
	before := len(w.waiting)
	w.waiting = append(w.waiting, line...)
	w.lines++
	full := before < batchBytes && len(w.waiting) >= batchBytes
	w.mu.Unlock()
	if full {
		select {
		case w.wake <- struct{}{}:
		default: // the goroutine has been woken already
		}
	}
}

// run writes batches until the Log is closed: when one is full, and when the flush
// interval is over.
func (w *writer) run() {
	defer close(w.done)
	tick := time.NewTicker(w.interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			w.flush()
		case <-w.wake:
			w.flush()
		case result := <-w.reopens:
			w.flush()
			result <- w.swap()
		case <-w.stop:
			w.flush()
			return
		}
	}
}

// flush writes the queue. After a failed write the rest of the batch is dropped, and
// the next one starts on a new line.
func (w *writer) flush() {
	w.mu.Lock()
	batch, lines := w.waiting, w.lines
	w.waiting, w.lines = w.spare[:0], 0
	w.mu.Unlock()
	w.spare = batch
	if cap(w.spare) > keptBytes {
		w.spare = nil // give back the memory of a burst
	}
	if lines == 0 {
		return
	}
	if w.torn {
		batch = append([]byte{'\n'}, batch...)
	}
	n, err := w.write(batch)
	if err == nil {
		w.torn = false
		w.written.Add(uint64(lines))
		return
	}
	w.torn = w.torn && n == 0 || n > 0 && batch[n-1] != '\n'
	w.failed.Add(uint64(lines))
	if now := time.Now(); now.Sub(w.loggedAt) >= logPeriod {
		w.loggedAt = now
		w.log.Error("the access log cannot be written; requests go on without it", "error", err)
	}
}

// write writes a batch to the file or to stdout.
func (w *writer) write(batch []byte) (int, error) {
	if file := w.file.Load(); file != nil {
		return file.Write(batch)
	}
	return w.stdout.Write(batch)
}

// swap reopens the file, after a log rotation.
func (w *writer) swap() error {
	if w.path == "" {
		return nil
	}
	file, err := openLog(w.path)
	if err != nil {
		return err
	}
	w.torn = false
	return w.file.Swap(file).Close()
}

// reopen lets the goroutine swap the file, so that no line is split between two
// files.
func (w *writer) reopen(ctx context.Context) error {
	result := make(chan error, 1)
	select {
	case w.reopens <- result:
		return <-result
	case <-w.done:
		return os.ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("reopen the access log: %w", ctx.Err())
	}
}

// close stops the goroutine after its last batch. When ctx ends first, it closes the
// file under the goroutine, which ends a write that hangs.
func (w *writer) close(ctx context.Context) error {
	w.mu.Lock()
	first := !w.closed
	w.closed = true
	w.mu.Unlock()
	if first {
		close(w.stop)
	}
	var late error
	select {
	case <-w.done:
	case <-ctx.Done():
		late = fmt.Errorf("write the end of the access log: %w", ctx.Err())
	}
	// Closing a pipe without a reader also ends a write that waits for one.
	if file := w.file.Load(); file != nil && first {
		return errors.Join(late, file.Close())
	}
	return late
}
