package h1

import (
	"net"
	"time"
)

// Writer writes to one connection, with a deadline on every write. Pieces that
// are queued go out together: as one system call on TCP, as one record where
// the connection makes records of what it is given. It is for one goroutine.
type Writer struct {
	conn   net.Conn
	pool   *BufferPool
	wait   time.Duration
	armed  time.Time
	vector bool // the connection takes several pieces in one system call
	parts  [4][]byte
	count  int
	pieces net.Buffers
	size   [20]byte // the line before a chunk
	direct directWrite
	socket Socket // nil where the connection is none
}

// Socket is a connection that writes what it can without waiting, also of several pieces.
type Socket interface {
	WriteNow(pieces [][]byte) (int, error)
}

// NewWriter writes to conn, with buffers from pool.
func NewWriter(conn net.Conn, pool *BufferPool, times Timeouts) *Writer {
	w := new(Writer)
	w.Init(conn, pool, times)
	return w
}

// Init makes a Writer that is part of something else ready, as NewWriter does. It may
// have written to another connection before.
func (w *Writer) Init(conn net.Conn, pool *BufferPool, times Timeouts) {
	*w = Writer{conn: conn, pool: pool, wait: times.Write, direct: w.direct.unbound()}
	_, w.vector = conn.(*net.TCPConn)
}

// UseSocket lets writes do without a deadline until they have to wait. socket is the
// Writer's connection.
func (w *Writer) UseSocket(socket Socket) { w.socket = socket }

// Reset drops the connection, and what it holds of its messages.
func (w *Writer) Reset() { w.Init(nil, nil, Timeouts{}) }

// SetTimeouts changes the bound of later writes.
func (w *Writer) SetTimeouts(times Timeouts) { w.wait = times.Write }

// WriteError is an error of the side that is written to, so that the caller of a
// [Transfer] can distinguish the two sides.
type WriteError struct{ Err error }

// Error implements error.
func (e *WriteError) Error() string { return "write: " + e.Err.Error() }

// Unwrap returns the connection's own error.
func (e *WriteError) Unwrap() error { return e.Err }

// Write writes b, after what is queued.
func (w *Writer) Write(b []byte) (int, error) {
	if err := w.Queue(b); err != nil {
		return 0, err
	}
	if err := w.Flush(); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Queue adds b to what goes out with the next Flush. It must not change until
// then.
func (w *Writer) Queue(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if w.count == len(w.parts) {
		if err := w.Flush(); err != nil {
			return err
		}
	}
	w.parts[w.count] = b
	w.count++
	return nil
}

// QueueChunk queues b as one chunk.
func (w *Writer) QueueChunk(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if w.count > 1 {
		// A chunk takes three places, and there is one line for its size.
		if err := w.Flush(); err != nil {
			return err
		}
	}
	w.parts[w.count] = appendChunkSize(w.size[:0], len(b))
	w.parts[w.count+1] = b
	w.parts[w.count+2] = crlf
	w.count += 3
	return nil
}

var crlf = []byte("\r\n")

// Flush writes what is queued.
func (w *Writer) Flush() error {
	count := w.count
	if count == 0 {
		return nil
	}
	w.count = 0
	var err error
	switch {
	case w.socket != nil:
		err = w.writeSocket(w.parts[:count])
	case count == 1:
		err = w.writeOne(w.parts[0])
	case w.vector:
		if err = w.arm(); err == nil {
			w.pieces = w.parts[:count]
			_, err = w.pieces.WriteTo(w.conn)
		}
	default:
		err = w.writeJoined(w.parts[:count])
	}
	clear(w.parts[:count])
	if err != nil {
		return &WriteError{err}
	}
	return nil
}

// arm sets the write deadline, unless it is about right already.
func (w *Writer) arm() error {
	until := lazyDeadline(w.armed, w.wait)
	if until.Equal(w.armed) {
		return nil
	}
	w.armed = until
	return w.conn.SetWriteDeadline(until)
}

// writeSocket writes the parts as far as the socket takes them, and then what is left, with a
// deadline.
func (w *Writer) writeSocket(parts [][]byte) error {
	written, err := w.socket.WriteNow(parts)
	for _, part := range parts {
		if err != nil {
			return err
		}
		if written >= len(part) {
			written -= len(part)
			continue
		}
		if err = w.arm(); err == nil {
			_, err = w.conn.Write(part[written:])
		}
		written = 0
	}
	return err
}

// writeOne writes one piece.
func (w *Writer) writeOne(b []byte) error {
	if w.direct.usable() {
		return w.writeDirect(b)
	}
	if err := w.arm(); err != nil {
		return err
	}
	_, err := w.conn.Write(b)
	return err
}

// writeJoined copies the parts together and writes them in as few calls as the
// buffer allows: TLS makes a record of each call.
func (w *Writer) writeJoined(parts [][]byte) error {
	total := 0
	for _, part := range parts {
		total += len(part)
	}
	buf := w.pool.Get(min(total, largeBuffer))
	defer w.pool.Put(buf)
	n := 0
	for _, part := range parts {
		for len(part) > 0 {
			k := copy(buf[n:], part)
			part, n = part[k:], n+k
			if n == len(buf) {
				if err := w.writeOne(buf); err != nil {
					return err
				}
				n = 0
			}
		}
	}
	if n == 0 {
		return nil
	}
	return w.writeOne(buf[:n])
}
