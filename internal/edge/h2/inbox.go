package h2

import (
	"io"
	"strconv"

	"slipway.dev/slipway/internal/edge/h1"
)

// inbox is what has come of a request and was not read yet. The data of a body
// is kept as it came, and gets its framing when it is read, so that many small
// frames make one chunk.
type inbox struct {
	pool *h1.BufferPool
	head []byte // the buffer that the head is in, until it was read
	text []byte // is read before data
	data pieces
	tail []byte // of a body in chunks: its end, and the trailers

	chunked bool // the body is read in chunks
	chunk   int  // what is left of the chunk that is being read
	line    [20]byte

	over bool  // nothing more comes
	end  error // what follows then: io.EOF after a whole request
}

var (
	crlf      = []byte("\r\n")
	lastChunk = []byte("0\r\n\r\n")
)

// read copies what there is, with its framing. It says how many bytes that are,
// and how many of them were data.
func (in *inbox) read(b []byte) (n, data int) {
	for n < len(b) {
		switch {
		case len(in.text) > 0:
			k := copy(b[n:], in.text)
			in.text = in.text[k:]
			n += k
			if len(in.text) == 0 {
				in.dropHead()
			}
		case in.data.size > 0 && in.chunked && in.chunk == 0:
			in.chunk = in.data.size
			in.text = append(strconv.AppendInt(in.line[:0], int64(in.chunk), 16), crlf...)
		case in.data.size > 0:
			most := len(b) - n
			if in.chunked {
				most = min(most, in.chunk)
			}
			k := in.data.read(b[n:n+most], in.pool)
			n += k
			data += k
			if in.chunked {
				if in.chunk -= k; in.chunk == 0 {
					in.text = crlf
				}
			}
		case in.over && in.end == io.EOF && len(in.tail) > 0:
			in.text, in.tail = in.tail, nil
		default:
			return n, data
		}
	}
	return n, data
}

// finish notes that the request is complete.
func (in *inbox) finish(tail []byte) {
	in.over, in.end = true, io.EOF
	if in.chunked {
		in.tail = tail
	}
}

func (in *inbox) dropHead() {
	if in.head != nil {
		in.pool.Put(in.head)
		in.head = nil
	}
}

// drop lets go of everything, and says how much data nobody will read.
func (in *inbox) drop() (unread int) {
	unread = in.data.size
	in.data.drop(in.pool)
	in.text, in.tail = nil, nil
	in.dropHead()
	return unread
}

// pieces are buffers in a row. They hold at most a window.
type pieces struct {
	list [][]byte
	from int // where the first begins
	to   int // where the last ends
	size int
}

func (p *pieces) write(data []byte, pool *h1.BufferPool) {
	p.size += len(data)
	for len(data) > 0 {
		if len(p.list) == 0 || p.to == len(p.list[len(p.list)-1]) {
			// The second buffer of a body is a large one.
			p.list = append(p.list, pool.Get(min(len(data)+len(p.list)*maxFrame, 2*maxFrame)))
			p.to = 0
		}
		n := copy(p.list[len(p.list)-1][p.to:], data)
		p.to += n
		data = data[n:]
	}
}

func (p *pieces) read(b []byte, pool *h1.BufferPool) int {
	n := 0
	for n < len(b) && p.size > 0 {
		first := p.list[0][p.from:]
		if len(p.list) == 1 {
			first = p.list[0][p.from:p.to]
		}
		k := copy(b[n:], first)
		n += k
		p.size -= k
		p.from += k
		if k == len(first) {
			pool.Put(p.list[0])
			p.list[0] = nil
			p.list = p.list[1:]
			p.from = 0
		}
	}
	if p.size == 0 {
		p.list = nil
	}
	return n
}

func (p *pieces) drop(pool *h1.BufferPool) {
	for _, piece := range p.list {
		pool.Put(piece)
	}
	*p = pieces{}
}
