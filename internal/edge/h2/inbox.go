package h2

import (
	"io"

	"slipway.dev/slipway/internal/edge/h1"
)

// inbox is what has come of a request and was not read yet.
type inbox struct {
	h1.Backlog
	head []byte // the buffer that the head is in, until it was read
}

var lastChunk = []byte("0\r\n\r\n")

// read copies what there is, as [h1.Backlog.Read] does.
func (in *inbox) read(b []byte) (n, data int) {
	n, data = in.Read(b)
	if len(in.Text) == 0 {
		in.dropHead()
	}
	return n, data
}

// finish notes that the request is complete.
func (in *inbox) finish(tail []byte) {
	in.Over, in.End = true, io.EOF
	if in.Chunked {
		in.Tail = tail
	}
}

func (in *inbox) dropHead() {
	if in.head != nil {
		in.Pool.Put(in.head)
		in.head = nil
	}
}

// drop lets go of everything, and says how much data nobody will read.
func (in *inbox) drop() (unread int) {
	unread = in.Drop()
	in.dropHead()
	return unread
}
