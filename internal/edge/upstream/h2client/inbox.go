package h2client

import (
	"io"
	"strconv"

	"slipway.dev/slipway/internal/edge/h1"
)

// inbox is what has come of a response and was not read yet. Heads are kept as
// text; the data of a body is kept as it came, and gets its framing when it is
// read, so that many small frames make one chunk.
type inbox struct {
	pool *h1.BufferPool
	text []byte // is read before data
	data pieces
	tail []byte // of a chunked body: its end and the trailers

	begun    bool  // some of the response has come
	headed   bool  // its final head has
	bodiless bool  // it has none: the method was HEAD, or the status says so
	chunked  bool  // its body is read in chunks
	left     int64 // of a body with a known length
	chunk    int   // what is left of the chunk that is being read
	line     [20]byte
	interims int

	room int64 // what the endpoint may still send
	owed int64 // what was read and not given back to it

	over bool  // nothing more comes
	end  error // what follows then; io.EOF after a whole response
}

var crlf = []byte("\r\n")

// read copies what there is, with its framing.
func (in *inbox) read(b []byte) int {
	n := 0
	for n < len(b) {
		switch {
		case len(in.text) > 0:
			k := copy(b[n:], in.text)
			in.text = in.text[k:]
			n += k
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
			in.owed += int64(k)
			if in.chunked {
				if in.chunk -= k; in.chunk == 0 {
					in.text = crlf
				}
			}
		case in.over && in.end == io.EOF && len(in.tail) > 0:
			in.text, in.tail = in.tail, nil
		default:
			return n
		}
	}
	return n
}

// credit is what to give back to the endpoint now: at least half of a window,
// so that updates are rare.
func (in *inbox) credit() uint32 {
	if in.owed < streamWindow/2 || in.over {
		return 0
	}
	credit := in.owed
	in.room += credit
	in.owed = 0
	return uint32(credit)
}

// drop lets go of everything.
func (in *inbox) drop() {
	in.data.drop(in.pool)
	in.text, in.tail = nil, nil
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
			p.list = append(p.list, pool.Get(min(len(data)+len(p.list)*frameSize, 2*frameSize)))
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
