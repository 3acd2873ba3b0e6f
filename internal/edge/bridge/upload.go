package bridge

import (
	"io"
	"net/http"
	"time"

	"golang.org/x/net/http/httpguts"

	"slipway.dev/slipway/internal/edge/h1"
)

const (
	// chunkLine and chunkTail are the frame around the data of a chunk: at most
	// four digits and CRLF, and CRLF.
	chunkLine = 6
	chunkTail = 2
	// maxChunk is the most data that four digits can announce.
	maxChunk = 1<<16 - 1
	// leastChunk is the smallest buffer that is read into directly: smaller reads go
	// through a buffer of the upload.
	leastChunk = 64
	// emptyReads is how often a read may return nothing before the body counts as
	// stuck. Frames without data cost time and bring nothing.
	emptyReads = 100
)

// upload is a request on its way to Serve: its head and, as it comes, its body in the
// framing of HTTP/1.1.
type upload struct {
	request *http.Request
	control *http.ResponseController
	pool    *h1.BufferPool
	wait    time.Duration

	framing h1.Framing // NoBody once the body has been read
	left    int64      // of a body that is Fixed

	out      []byte // goes out first
	buf      []byte // what out is in, from the pool
	early    []byte // of the body, read to see whether there is one
	earlyBuf []byte // what early is in, from the pool
	small    [leastChunk]byte
}

// begin resets the upload for a request.
func (u *upload) begin(h *Handler, r *http.Request, control *http.ResponseController) {
	*u = upload{request: r, control: control, pool: h.Pool, wait: h.headTimeout()}
}

// release gives the buffers back.
func (u *upload) release() {
	u.dropBuf()
	u.dropEarly()
	u.request, u.control = nil, nil
}

// dropBuf gives the buffer of out back as soon as it is empty: an upload that waits
// holds no memory.
func (u *upload) dropBuf() {
	if u.buf != nil {
		u.pool.Put(u.buf)
	}
	u.buf, u.out = nil, nil
}

// dropEarly gives the buffer of the bytes that peek read back.
func (u *upload) dropEarly() {
	if u.earlyBuf != nil {
		u.pool.Put(u.earlyBuf)
	}
	u.earlyBuf, u.early = nil, nil
}

// read reads the next bytes of the request. The head comes alone, even when there is
// room for more: the body is waited for only when it is read.
func (u *upload) read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(u.out) > 0 {
		return u.give(p), nil
	}
	switch u.framing {
	case h1.Fixed:
		return u.readFixed(p)
	case h1.Chunked:
		return u.readChunk(p)
	}
	return 0, io.EOF
}

// give copies from out.
func (u *upload) give(p []byte) int {
	n := copy(p, u.out)
	if u.out = u.out[n:]; len(u.out) == 0 {
		u.dropBuf()
	}
	return n
}

// readFixed reads a body that has a length. One that ends before it is truncated,
// even if the library reports a clean end.
func (u *upload) readFixed(p []byte) (int, error) {
	if u.left == 0 {
		return 0, io.EOF
	}
	n, err := u.readBody(p[:min(int64(len(p)), u.left)])
	u.left -= int64(n)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// readChunk reads some of a body without a length, as a chunk.
func (u *upload) readChunk(p []byte) (int, error) {
	into := p
	if len(p) < leastChunk {
		into = u.small[:]
	}
	data := into[chunkLine:min(len(into)-chunkTail, chunkLine+maxChunk)]
	n, err := u.readBody(data)
	if err == io.EOF {
		u.framing = h1.NoBody
		if err := u.endChunks(); err != nil {
			return 0, err
		}
		return u.give(p), nil
	}
	if err != nil {
		return 0, err
	}
	size := frameChunk(into, n)
	if len(p) < leastChunk {
		u.out = into[:size]
		return u.give(p), nil
	}
	return size, nil
}

// frameChunk puts the frame of a chunk around n bytes at buf[chunkLine:] and
// moves them to the front. It returns how many bytes there are altogether.
func frameChunk(buf []byte, n int) int {
	const digits = "0123456789abcdef"
	width := 1
	for n>>(4*width) > 0 {
		width++
	}
	for i := range width {
		buf[i] = digits[n>>(4*(width-1-i))&15]
	}
	buf[width], buf[width+1] = '\r', '\n'
	start := width + 2
	if start != chunkLine {
		copy(buf[start:], buf[chunkLine:chunkLine+n])
	}
	buf[start+n], buf[start+n+1] = '\r', '\n'
	return start + n + chunkTail
}

// endChunks puts the end of a chunked body, with its trailers, into out.
func (u *upload) endChunks() error {
	u.dropBuf()
	u.buf = u.pool.Get(1)
	out := append(u.buf[:0], "0\r\n"...)
	for name, values := range u.request.Trailer {
		for _, value := range values {
			// The library checks this too. A line break here would smuggle a request.
			if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
				return h1.ErrTrailerName
			}
			out = append(out, name...)
			out = append(out, ": "...)
			out = append(out, value...)
			out = append(out, "\r\n"...)
		}
	}
	u.out = append(out, "\r\n"...)
	return nil
}

// readBody reads at least one byte of the body, or an error.
func (u *upload) readBody(p []byte) (int, error) {
	if len(u.early) > 0 {
		n := copy(p, u.early)
		if u.early = u.early[n:]; len(u.early) == 0 {
			u.dropEarly()
		}
		return n, nil
	}
	for range emptyReads {
		n, err := u.request.Body.Read(p)
		if n > 0 {
			// An error along with bytes comes again with the next read.
			return n, nil
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, io.ErrNoProgress
}
