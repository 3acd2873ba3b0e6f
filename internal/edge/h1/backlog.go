package h1

import (
	"io"
	"strconv"
)

// Backlog is the part of a message that arrived in frames of HTTP/2 or HTTP/3 and
// was not read yet. The data of a body is stored as it came, and gets its framing
// when it is read, so that many small frames make one chunk.
type Backlog struct {
	Pool *BufferPool
	// Text is read before the data: a head, or a line of the framing.
	Text []byte
	// Tail follows a body in chunks: its end, and the trailers.
	Tail []byte
	// Chunked reports that the body is read in chunks.
	Chunked bool
	// Over reports that nothing more comes, and End is the error that follows then:
	// io.EOF after a whole message.
	Over bool
	End  error

	data  pieces
	chunk int // what is left of the chunk that is being read
	line  [20]byte
}

// Add appends data of the body.
func (l *Backlog) Add(data []byte) { l.data.write(data, l.Pool) }

// Read copies the available bytes, with their framing. It returns how many bytes
// these are, and how many of them were data.
func (l *Backlog) Read(b []byte) (n, data int) {
	for n < len(b) {
		switch {
		case len(l.Text) > 0:
			k := copy(b[n:], l.Text)
			l.Text = l.Text[k:]
			n += k
		case l.data.size > 0 && l.Chunked && l.chunk == 0:
			l.chunk = l.data.size
			l.Text = append(strconv.AppendInt(l.line[:0], int64(l.chunk), 16), crlf...)
		case l.data.size > 0:
			k := l.readData(b[n:])
			n += k
			data += k
		case l.Over && l.End == io.EOF && len(l.Tail) > 0:
			l.Text, l.Tail = l.Tail, nil
		default:
			return n, data
		}
	}
	return n, data
}

// readData copies data up to the end of its chunk.
func (l *Backlog) readData(b []byte) int {
	if !l.Chunked {
		return l.data.read(b, l.Pool)
	}
	k := l.data.read(b[:min(len(b), l.chunk)], l.Pool)
	if l.chunk -= k; l.chunk == 0 {
		l.Text = crlf
	}
	return k
}

// Drop releases everything, and returns how much data was unread, for flow control.
func (l *Backlog) Drop() (unread int) {
	unread = l.data.size
	l.data.drop(l.Pool)
	l.Text, l.Tail = nil, nil
	return unread
}

// pieceSize is that of the buffers of a body after its first.
const pieceSize = 32 << 10

// pieces are a queue of buffers. Flow control bounds them to one window.
type pieces struct {
	list [][]byte
	from int // where the first begins
	to   int // where the last ends
	size int
}

func (p *pieces) write(data []byte, pool *BufferPool) {
	p.size += len(data)
	for len(data) > 0 {
		if len(p.list) == 0 || p.to == len(p.list[len(p.list)-1]) {
			// The second buffer of a body is a large one.
			p.list = append(p.list, pool.Get(min(len(data)+len(p.list)*pieceSize/2, pieceSize)))
			p.to = 0
		}
		n := copy(p.list[len(p.list)-1][p.to:], data)
		p.to += n
		data = data[n:]
	}
}

// read copies from the front and gives empty buffers back to the pool.
func (p *pieces) read(b []byte, pool *BufferPool) int {
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

func (p *pieces) drop(pool *BufferPool) {
	for _, piece := range p.list {
		pool.Put(piece)
	}
	*p = pieces{}
}
