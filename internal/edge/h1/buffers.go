package h1

import (
	"sync"
	"sync/atomic"
)

const (
	// smallBuffer holds a usual head; it is all that an idle connection has.
	smallBuffer = 4 << 10
	// largeBuffer holds the largest head that the default limits allow, and is
	// what bodies go through.
	largeBuffer = 32 << 10
	// bodyBuffer holds more of a long body, which so takes a third of the system calls. A slow
	// reader keeps its buffer for long, so no more than maxBodyBuffers are lent at a time.
	// It is a size that no head grows to.
	bodyBuffer     = 132 << 10
	maxBodyBuffers = 256
)

// BufferPool lends the buffers that connections read and write through. The
// zero value is ready. One pool serves all connections of a process.
type BufferPool struct {
	small, large, body sync.Pool
	// bodies is how many body buffers are lent.
	bodies atomic.Int32
}

// getBody returns a buffer for a body of which so many bytes are to come.
func (p *BufferPool) getBody(expected int64) []byte {
	if expected <= largeBuffer {
		return p.Get(largeBuffer)
	}
	if p.bodies.Add(1) > maxBodyBuffers {
		p.bodies.Add(-1)
		return p.Get(largeBuffer)
	}
	if b, ok := p.body.Get().(*[bodyBuffer]byte); ok {
		return b[:]
	}
	return make([]byte, bodyBuffer)
}

// Get returns a buffer of at least size bytes. Its content is undefined.
func (p *BufferPool) Get(size int) []byte {
	switch {
	case size <= smallBuffer:
		if b, ok := p.small.Get().(*[smallBuffer]byte); ok {
			return b[:]
		}
		return make([]byte, smallBuffer)
	case size <= largeBuffer:
		if b, ok := p.large.Get().(*[largeBuffer]byte); ok {
			return b[:]
		}
		return make([]byte, largeBuffer)
	}
	return make([]byte, size)
}

// Put takes back a buffer that Get returned. It must not be used any more.
func (p *BufferPool) Put(b []byte) {
	switch cap(b) {
	case smallBuffer:
		p.small.Put((*[smallBuffer]byte)(b[:smallBuffer]))
	case bodyBuffer:
		p.bodies.Add(-1)
		p.body.Put((*[bodyBuffer]byte)(b[:bodyBuffer]))
	case largeBuffer:
		p.large.Put((*[largeBuffer]byte)(b[:largeBuffer]))
	}
}
