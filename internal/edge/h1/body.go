package h1

import (
	"io"
	"strconv"

	"slipway.dev/slipway/internal/edge/httperr"
)

const (
	// maxExtension bounds the extension of one chunk, and maxExtensions those
	// of a body: they are unused in practice, and cost without carrying data.
	maxExtension  = 256
	maxExtensions = 4096
	// maxSizeDigits is what fits 64 bits.
	maxSizeDigits = 16
)

// The states of a Body.
const (
	bodyDone      = iota // nothing more belongs to the message
	bodyData             // data comes next
	bodyDataEnd          // the CRLF after a chunk's data comes next
	bodySize             // a line with a chunk size comes next
	bodyExtension        // the rest of that line comes next, up to its CRLF
	bodySizeEnd          // the CRLF of that line comes next
	bodyTrailer          // a trailer comes next, or the empty line after them
	bodyOpen             // data comes until the connection ends
)

// Body follows one message body through its framing. Feed it the bytes that were
// read; it returns those to pass on. Chunk extensions are never passed on: they mean
// nothing beyond one connection, and parsers disagree about them. The zero
// value is a body that is done.
type Body struct {
	// Trailers are those of a chunked body. They hold until Reset.
	Trailers Fields

	limits  Limits
	state   uint8
	chunked bool
	decode  bool
	left    int64  // bytes of data to come, in this chunk or altogether
	payload int64  // bytes of data so far
	rest    int    // bytes of this chunk's extension
	extra   int    // bytes of extensions so far
	lines   []byte // the trailers
}

// Reset prepares for a body. With decode, Next passes the data only; without, it
// passes chunked framing too, once checked.
func (b *Body) Reset(framing Framing, length int64, decode bool, limits *Limits) {
	b.Trailers.reset()
	*b = Body{Trailers: b.Trailers, lines: b.lines[:0], limits: *limits, decode: decode}
	switch framing {
	case Fixed:
		if length > 0 {
			b.state, b.left = bodyData, length
		}
	case Chunked:
		b.state, b.chunked = bodySize, true
	case UntilClose:
		b.state = bodyOpen
	}
}

// Done reports whether the body has been read to its end.
func (b *Body) Done() bool { return b.state == bodyDone }

// Payload is the number of bytes of data so far, without framing.
func (b *Body) Payload() int64 { return b.payload }

// expected is how much data is known to come next, in this chunk or altogether. A body that
// ends with its connection may be long once it was longer than a buffer.
func (b *Body) expected() int64 {
	switch {
	case b.state == bodyData:
		return b.left
	case b.state == bodyOpen && b.payload > largeBuffer:
		return bodyBuffer
	}
	return 0
}

// skip notes data that was passed on without Next.
func (b *Body) skip(n int64) {
	b.left -= n
	b.payload += n
	if b.left == 0 {
		b.endData()
	}
}

// endData goes on after the data of a chunk, or of the body.
func (b *Body) endData() {
	b.state = bodyDone
	if b.chunked {
		b.state = bodyDataEnd
	}
}

// End reports that no more bytes will come. That ends a body of UntilClose framing;
// any other is truncated.
func (b *Body) End() error {
	if b.state != bodyOpen && b.state != bodyDone {
		return io.ErrUnexpectedEOF
	}
	b.state = bodyDone
	return nil
}

// Next consumes bytes. It returns the part of buf to pass on, which may be empty,
// and how many bytes of buf are used up, which is 0 when more are needed or the body
// is done. Call it until it returns 0.
func (b *Body) Next(buf []byte) (pass []byte, used int, err error) {
	for used < len(buf) && b.state != bodyDone {
		n, keep, err := b.step(buf[used:])
		if err != nil {
			return nil, 0, err
		}
		if n == 0 {
			break
		}
		switch {
		case keep && pass == nil:
			pass = buf[used : used+n]
		case keep:
			// Nothing was dropped since pass began, so it only grows.
			pass = pass[:len(pass)+n]
		}
		used += n
		if !keep && pass != nil {
			break
		}
	}
	return pass, used, nil
}

// step reads one element from the start of buf: its size, 0 when it is not
// complete, and whether it is to be passed on.
func (b *Body) step(buf []byte) (n int, keep bool, err error) {
	switch b.state {
	case bodyData:
		n = int(min(b.left, int64(len(buf))))
		b.left -= int64(n)
		b.payload += int64(n)
		if b.left == 0 {
			b.endData()
		}
		return n, true, nil
	case bodyOpen:
		b.payload += int64(len(buf))
		return len(buf), true, nil
	case bodyDataEnd:
		n, err = lineEnd(buf, ErrChunkEnd)
		if n > 0 {
			b.state = bodySize
		}
	case bodySize:
		n, err = b.size(buf)
	case bodyExtension:
		n = min(b.rest, len(buf))
		if b.rest -= n; b.rest == 0 {
			b.state = bodySizeEnd
		}
		return n, false, nil
	case bodySizeEnd:
		n, err = lineEnd(buf, ErrChunkExtension)
		if n > 0 {
			b.afterSize()
		}
	case bodyTrailer:
		n, err = b.trailer(buf)
	}
	return n, !b.decode, err
}

// lineEnd reads a CRLF that has to come next.
func lineEnd(buf []byte, otherwise *httperr.Error) (int, error) {
	switch {
	case buf[0] == '\n':
		return 0, ErrBareLF
	case buf[0] != '\r':
		return 0, otherwise
	case len(buf) == 1:
		return 0, nil
	case buf[1] != '\n':
		return 0, ErrBareCR
	}
	return 2, nil
}

// size reads a line with a chunk size. The whole line is checked before any of
// it is passed on; with an extension, the number alone is used up.
func (b *Body) size(buf []byte) (int, error) {
	var size uint64
	digits := 0
	for digits < len(buf) {
		digit := hexValue[buf[digits]]
		if digit > 15 {
			break
		}
		if digits++; digits > maxSizeDigits {
			return 0, ErrChunkSize
		}
		size = size<<4 | uint64(digit)
	}
	if digits == len(buf) {
		return 0, nil
	}
	if digits == 0 || size >= 1<<62 {
		return 0, ErrChunkSize
	}
	b.left = int64(size)
	if buf[digits] == ';' {
		rest, err := b.extension(buf[digits:])
		if rest == 0 {
			return 0, err
		}
		b.state, b.rest = bodyExtension, rest
		return digits, nil
	}
	end, err := lineEnd(buf[digits:], ErrChunkSize)
	if end == 0 {
		return 0, err
	}
	b.afterSize()
	return digits + end, nil
}

func (b *Body) afterSize() {
	b.state = bodyData
	if b.left == 0 {
		b.state = bodyTrailer
	}
}

// extension checks what stands between a chunk size and its CRLF, and returns
// its length, 0 while the line is not complete. A quoted value has to end on the
// line: a reader that looks for its end further on would take the data for it.
func (b *Body) extension(buf []byte) (int, error) {
	quoted, escaped := false, false
	for i, c := range buf {
		if i > maxExtension || b.extra+i > maxExtensions {
			return 0, ErrChunkExtension
		}
		if c-0x20 <= 0x7e-0x20 {
			quoted = quoted != (c == '"' && !escaped)
			escaped = quoted && c == '\\' && !escaped
			continue
		}
		end, err := lineEnd(buf[i:], ErrChunkExtension)
		if end == 0 {
			return 0, err
		}
		if quoted {
			return 0, ErrChunkExtension
		}
		b.extra += i
		return i, nil
	}
	return 0, nil
}

// trailer reads one trailer, or the empty line that ends the body.
func (b *Body) trailer(buf []byte) (int, error) {
	var at lines
	end, err := at.cut(buf)
	switch {
	case err != nil:
		return 0, err
	case end < 0 && len(b.lines)+len(buf) > b.limits.TrailerBytes:
		return 0, ErrTrailerTooLarge
	case end < 0:
		return 0, nil
	case end == 0:
		b.state = bodyDone
		return 2, nil
	case len(b.lines)+end+2 > b.limits.TrailerBytes:
		return 0, ErrTrailerTooLarge
	}
	start := len(b.lines)
	b.lines = append(b.lines, buf[:end+2]...)
	b.Trailers.buf = b.lines
	if err := b.Trailers.add(b.lines, start, start+end, b.limits.Fields, b.limits.Underscores); err != nil {
		return 0, err
	}
	if b.Trailers.ID(b.Trailers.Len() - 1).HeadOnly() {
		return 0, ErrTrailerName
	}
	return end + 2, nil
}

// hexValue is the value of a hex digit, 255 for all else.
var hexValue = func() (t [256]uint8) {
	for i := range t {
		t[i] = 255
	}
	for i, c := range "0123456789abcdef" {
		t[c] = uint8(i)
	}
	copy(t['A':], t['a':'f'+1])
	return t
}()

// AppendLastChunk appends the end of a chunked body, with trailers if there
// are any.
func AppendLastChunk(dst []byte, trailers *Fields) []byte {
	dst = append(dst, "0\r\n"...)
	if trailers != nil {
		for i := range trailers.list {
			dst = trailers.appendLine(dst, i)
		}
	}
	return append(dst, "\r\n"...)
}

// appendChunkSize appends the line before a chunk's data.
func appendChunkSize(dst []byte, n int) []byte {
	return append(strconv.AppendInt(dst, int64(n), 16), "\r\n"...)
}
