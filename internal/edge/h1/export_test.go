package h1

import "net"

// NewReader returns a Reader of its own. Elsewhere a Reader is part of something else.
func NewReader(conn net.Conn, pool *BufferPool, times Timeouts) *Reader {
	r := new(Reader)
	r.Init(conn, pool, times)
	return r
}
