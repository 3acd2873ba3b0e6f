package h1

import "sync"

const (
	// smallBuffer holds a usual head; it is all that an idle connection has.
	smallBuffer = 4 << 10
	// largeBuffer holds the largest head that the default limits allow, and is
	// what bodies go through.
	largeBuffer = 32 << 10
)

// BufferPool lends the buffers that connections read and write through. The
// zero value is ready. One pool serves all connections of a process.
type BufferPool struct {
	small, large sync.Pool
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
	case largeBuffer:
		p.large.Put((*[largeBuffer]byte)(b[:largeBuffer]))
	}
}
