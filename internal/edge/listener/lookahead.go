package listener

import "sync"

const (
	// maxLookahead bounds what is read before a connection is handed over.
	maxLookahead = 16 << 10
	// smallLookahead is enough for every usual ClientHello.
	smallLookahead = 4 << 10
)

// lookahead has bytes that were read from a connection and not yet by its user.
// The zero value is empty and has no buffer.
type lookahead struct {
	buf   *[]byte
	start int
	end   int
}

// bytes returns the bytes without consuming them.
func (a *lookahead) bytes() []byte {
	if a.buf == nil {
		return nil
	}
	return (*a.buf)[a.start:a.end]
}

// room returns free space for at least one byte, nil when there are limit bytes
// already.
func (a *lookahead) room(limit int, pools *bufferPools) []byte {
	have := a.bytes()
	if len(have) >= limit {
		return nil
	}
	if a.buf == nil || a.end == len(*a.buf) {
		size := smallLookahead
		if len(have) >= smallLookahead {
			size = maxLookahead
		}
		grown := pools.get(size)
		a.end = copy(*grown, have)
		a.start = 0
		pools.put(a.buf)
		a.buf = grown
	}
	return (*a.buf)[a.end:min(len(*a.buf), a.start+limit)]
}

// take copies bytes out, and releases the buffer after the last one.
func (a *lookahead) take(p []byte, pools *bufferPools) int {
	n := copy(p, a.bytes())
	a.skip(n, pools)
	return n
}

// skip consumes n bytes without a copy.
func (a *lookahead) skip(n int, pools *bufferPools) {
	a.start += n
	if a.start == a.end {
		a.drop(pools)
	}
}

// drop releases the buffer.
func (a *lookahead) drop(pools *bufferPools) {
	pools.put(a.buf)
	*a = lookahead{}
}

// bufferPools recycle the buffers of connections.
type bufferPools struct {
	small, large sync.Pool
}

func (p *bufferPools) get(size int) *[]byte {
	pool := &p.small
	if size == maxLookahead {
		pool = &p.large
	}
	if buf, ok := pool.Get().(*[]byte); ok {
		return buf
	}
	buf := make([]byte, size)
	return &buf
}

func (p *bufferPools) put(buf *[]byte) {
	switch {
	case buf == nil:
	case len(*buf) == maxLookahead:
		p.large.Put(buf)
	default:
		p.small.Put(buf)
	}
}
