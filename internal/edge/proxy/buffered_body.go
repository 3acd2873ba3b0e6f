package proxy

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"slipway.dev/slipway/internal/edge/h1"
)

// defaultMaxBufferedBytes bounds the memory of all buffered bodies together,
// where Config does not.
const defaultMaxBufferedBytes = 128 << 20

// The sizes of the pieces that bodies are stored in: those of the buffer pool, so
// that pieces are reused.
const (
	smallPiece = 4 << 10
	largePiece = 32 << 10
)

// errMemory is why a body is not buffered: others take all the memory there is.
var errMemory = errors.New("the memory for bodies is used up; try again later")

// memory bounds the buffered bodies of all requests together. Reservations are
// made before the memory is used, by one atomic add: no lock is on the way of a
// request.
type memory struct {
	pool    *h1.BufferPool
	limit   int64
	used    atomic.Int64
	refused atomic.Uint64
}

// take reserves n bytes, and reports whether there was room.
func (m *memory) take(n int64) bool {
	if m.used.Add(n) > m.limit {
		m.used.Add(-n)
		m.refused.Add(1)
		return false
	}
	return true
}

// give returns n bytes of a reservation.
func (m *memory) give(n int64) { m.used.Add(-n) }

// bufferedBody is a body in memory, in pieces from the pool. It is shared by
// reference count: it starts with one owner, mirrors and sub-requests add more,
// and the last one to release it gives the pieces back. Only the first owner
// writes, before it shares.
type bufferedBody struct {
	memory *memory
	pieces [][]byte
	last   int   // bytes used of the last piece
	limit  int64 // of the body; 0 is no bound
	size   int64
	taken  int64
	// invalid reports that a part of the body is missing.
	invalid bool
	owners  atomic.Int32
}

// newBody returns an empty body of at most limit bytes, with one owner.
func (m *memory) newBody(limit int64) *bufferedBody {
	h := &bufferedBody{memory: m, limit: limit}
	h.owners.Store(1)
	return h
}

// Size is the number of bytes in the body.
func (h *bufferedBody) Size() int64 { return h.size }

// Write adds to the body. It fails with h1.ErrBodyTooLarge or errMemory.
func (h *bufferedBody) Write(data []byte) (n int, err error) {
	if h.limit > 0 && h.size+int64(len(data)) > h.limit {
		return 0, h1.ErrBodyTooLarge
	}
	for len(data) > 0 {
		if len(h.pieces) == 0 || h.last == len(h.pieces[len(h.pieces)-1]) {
			size := smallPiece
			if len(h.pieces) > 0 || len(data) > smallPiece {
				size = largePiece
			}
			if !h.memory.take(int64(size)) {
				return n, errMemory
			}
			h.taken += int64(size)
			h.pieces, h.last = append(h.pieces, h.memory.pool.Get(size)), 0
		}
		k := copy(h.pieces[len(h.pieces)-1][h.last:], data)
		data = data[k:]
		h.last += k
		h.size += int64(k)
		n += k
	}
	return n, nil
}

// Each calls yield for each piece, until it fails.
func (h *bufferedBody) Each(yield func([]byte) error) error {
	for i, piece := range h.pieces {
		if i == len(h.pieces)-1 {
			piece = piece[:h.last]
		}
		if err := yield(piece); err != nil {
			return err
		}
	}
	return nil
}

// share adds an owner.
func (h *bufferedBody) share() *bufferedBody {
	h.owners.Add(1)
	return h
}

// release ends one ownership. A nil body has none.
func (h *bufferedBody) release() {
	if h == nil || h.owners.Add(-1) > 0 {
		return
	}
	h.free()
}

// invalidate marks a body of which a part is missing, and gives its pieces back. Only the
// first owner calls it, before it shares.
func (h *bufferedBody) invalidate() {
	h.invalid = true
	h.free()
}

// free gives the pieces back.
func (h *bufferedBody) free() {
	for _, piece := range h.pieces {
		h.memory.pool.Put(piece)
	}
	h.memory.give(h.taken)
	h.pieces, h.taken = nil, 0
}

// sink is a net.Conn over an io.Writer. It lets a Transfer end in memory, in an
// encoder or in a second Writer.
type sink struct{ to io.Writer }

// Write implements net.Conn.
func (s *sink) Write(b []byte) (int, error) { return s.to.Write(b) }

// Read implements net.Conn: there is nothing to read.
func (s *sink) Read([]byte) (int, error) { return 0, net.ErrClosed }

// Close implements net.Conn.
func (s *sink) Close() error { return nil }

// LocalAddr implements net.Conn.
func (s *sink) LocalAddr() net.Addr { return nil }

// RemoteAddr implements net.Conn.
func (s *sink) RemoteAddr() net.Addr { return nil }

// SetDeadline implements net.Conn. What is behind the sink has its own.
func (s *sink) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn.
func (s *sink) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn.
func (s *sink) SetWriteDeadline(time.Time) error { return nil }

// sinkWriter is a sink with a Writer, which is made when it is first needed.
type sinkWriter struct {
	sink   sink
	writer *h1.Writer
}

// to returns the Writer, with its bytes going to the given one.
func (d *sinkWriter) to(to io.Writer, pool *h1.BufferPool) *h1.Writer {
	d.sink.to = to
	if d.writer == nil {
		d.writer = h1.NewWriter(&d.sink, pool, h1.Timeouts{})
	}
	return d.writer
}
