package h2

import (
	"io"

	"slipway.dev/slipway/internal/edge/h1"
)

// requestBuffer has what of a request came and the handler has not read, as the
// text of HTTP/1.1. The stream's receive window bounds it.
type requestBuffer struct {
	h1.Backlog
	head []byte // the buffer of the head, until it is read; from the pool
}

// lastChunk ends a chunked body without trailers.
var lastChunk = []byte("0\r\n\r\n")

// read copies what there is, as [h1.Backlog.Read] does.
func (in *requestBuffer) read(b []byte) (n, data int) {
	n, data = in.Read(b)
	if len(in.Text) == 0 {
		in.dropHead()
	}
	return n, data
}

// takeHead returns the head with its buffer, if none of it was read.
func (in *requestBuffer) takeHead() []byte {
	head := in.head
	if len(in.Text) != len(head) {
		return nil
	}
	in.head, in.Text = nil, nil
	return head
}

// finish marks the request as complete.
func (in *requestBuffer) finish(tail []byte) {
	in.Over, in.End = true, io.EOF
	if in.Chunked {
		in.Tail = tail
	}
}

func (in *requestBuffer) dropHead() {
	if in.head != nil {
		in.Pool.Put(in.head)
		in.head = nil
	}
}

// drop releases all memory, and returns how much of the body was not read.
func (in *requestBuffer) drop() (unread int) {
	unread = in.Drop()
	in.dropHead()
	return unread
}
