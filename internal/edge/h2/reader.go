package h2

import (
	"bufio"
	"net"

	"golang.org/x/net/http2"
)

// readSize is how much one read takes from the connection. All frames of it are
// handled before a request of them starts, so it is also how far a reset may be
// behind its request to cost nothing.
const readSize = 4 << 10

// frameReader reads frames and blocks of headers. It belongs to the goroutine
// that reads the connection.
type frameReader struct {
	in       *bufio.Reader
	framer   *http2.Framer
	headers  headerBlock
	pending  pendingHeaders // whose block is being read
	composer composer

	noFrame     bool // no frame has come, so FirstTimeout still holds
	settled     bool // the client's first SETTINGS has come
	hasDeadline bool // the connection has a read deadline
	waited      bool // the reader waited for bytes since the last frame
}

func (r *frameReader) init(cfg *Config, conn net.Conn) {
	r.noFrame, r.hasDeadline = true, true
	r.in = bufio.NewReaderSize(conn, readSize)
	r.framer = http2.NewFramer(nil, r.in)
	r.framer.SetMaxReadFrameSize(maxFrame)
	// The frames and their payloads are only valid until the next one is read.
	r.framer.SetReuseFrames()
	r.headers.init(cfg)
	r.composer.pool = cfg.Handler.Pool
}

// readPreface reads the client preface. It compares what has come so far and
// does not wait for the rest, so that a client of another protocol fails at
// once.
func (r *frameReader) readPreface() error {
	for at := 0; at < len(http2.ClientPreface); {
		if r.in.Buffered() == 0 {
			if _, err := r.in.Peek(1); err != nil {
				return err
			}
		}
		part, _ := r.in.Peek(min(r.in.Buffered(), len(http2.ClientPreface)-at))
		if string(part) != http2.ClientPreface[at:at+len(part)] {
			return errPreface
		}
		at += len(part)
		_, _ = r.in.Discard(len(part)) // it is buffered
	}
	return nil
}
