package h1

import (
	"strconv"

	"slipway.dev/slipway/internal/edge/httperr"
	"slipway.dev/slipway/internal/edge/normalize"
)

// Composer writes a request that came by another protocol as the head of an
// HTTP/1.1 request, to be read with [Head.Parse] like any other: so one set of
// rules judges requests of HTTP/1.1, HTTP/2 and HTTP/3, and none is smuggled
// through the translation. The caller sets the length of the body; headers cannot
// change it. The first error is kept and returned by End.
type Composer struct {
	buf []byte
	err error
}

// Start begins a head in dst, which it appends to.
func (c *Composer) Start(dst []byte, method, target, authority string) {
	*c = Composer{buf: dst}
	if !printable(normalize.Bytes(method)) || !printable(normalize.Bytes(target)) {
		c.err = ErrRequestLine
		return
	}
	c.buf = append(c.buf, method...)
	c.buf = append(c.buf, ' ')
	c.buf = append(c.buf, target...)
	c.buf = append(c.buf, " HTTP/1.1\r\n"...)
	c.write("Host", authority)
}

// Field adds a header. Fields about a connection are not allowed in the other
// protocols and are refused, as are values with white space around them; Host and
// Content-Length have parameters of their own and are ignored.
func (c *Composer) Field(name, value string) {
	id := normalize.FieldOf(normalize.Bytes(name))
	switch {
	case id == normalize.FieldHost, id == normalize.FieldContentLength:
		return
	case id == normalize.FieldTE && value == "trailers":
	case id == normalize.FieldTransferEncoding:
		c.fail(ErrCoding)
	case id.ConnectionOnly() && id != normalize.FieldVariant:
		c.fail(ErrConnectionList)
	case value != "" && (blank(value[0]) || blank(value[len(value)-1])):
		c.fail(ErrValueBlank)
	}
	c.write(name, value)
}

// End finishes the head, with the framing of the body that follows.
func (c *Composer) End(framing Framing, length int64) ([]byte, error) {
	switch framing {
	case Fixed:
		c.write("Content-Length", strconv.FormatInt(length, 10))
	case Chunked:
		c.write("Transfer-Encoding", "chunked")
	}
	if c.err != nil {
		return nil, c.err
	}
	return append(c.buf, "\r\n"...), nil
}

func (c *Composer) write(name, value string) {
	if !token(normalize.Bytes(name)) {
		c.fail(ErrFieldName)
	}
	if !cleanValue(normalize.Bytes(value)) {
		c.fail(controlError(normalize.Bytes(value)))
	}
	c.buf = appendField(c.buf, name, value)
}

func (c *Composer) fail(broken *httperr.Error) {
	if c.err == nil {
		c.err = broken
	}
}
