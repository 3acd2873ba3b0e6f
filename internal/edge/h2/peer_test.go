package h2_test

import (
	"bytes"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"slipway.dev/slipway/internal/edge/bridge/bridgetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// peer is a client that sends whatever frames it likes.
type peer struct {
	*http2.Framer
	conn  net.Conn
	block bytes.Buffer
	hpack *hpack.Encoder

	mu      sync.Mutex
	events  []event
	changed chan struct{} // closed at the next event
}

// event is a frame that came from the server. The end of the connection is
// one, too.
type event struct {
	kind   http2.FrameType
	stream uint32
	status string
	code   http2.ErrCode
	last   uint32 // of GOAWAY
	ends   bool   // the stream
	data   string
	gone   bool // the connection
}

// dial opens a connection and sends the preface.
func dial(t testing.TB, s *server) *peer {
	t.Helper()
	conn := must.Get(net.Dial("tcp", s.addr))(t)
	must.Get(conn.Write([]byte(http2.ClientPreface)))(t)
	p := &peer{Framer: http2.NewFramer(conn, conn), conn: conn, changed: make(chan struct{})}
	p.hpack = hpack.NewEncoder(&p.block)
	p.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	must.Do(t, p.WriteSettings())
	programs.Background(t, p.read, func() { conn.Close() })
	return p
}

func (p *peer) read() {
	for {
		f, err := p.ReadFrame()
		if err != nil {
			p.note(event{gone: true})
			return
		}
		e := event{kind: f.Header().Type, stream: f.Header().StreamID}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			e.status, e.ends = f.PseudoValue("status"), f.StreamEnded()
		case *http2.DataFrame:
			e.data, e.ends = string(f.Data()), f.StreamEnded()
		case *http2.RSTStreamFrame:
			e.code = f.ErrCode
		case *http2.GoAwayFrame:
			e.code, e.last = f.ErrCode, f.LastStreamID
		}
		p.note(e)
	}
}

func (p *peer) note(e event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, e)
	close(p.changed)
	p.changed = make(chan struct{})
}

// await waits for an event that fits, from the start on.
func (p *peer) await(t testing.TB, what string, fits func(event) bool) event {
	t.Helper()
	give := time.After(bridgetest.Timeout)
	for seen := 0; ; {
		p.mu.Lock()
		events, changed := p.events[seen:], p.changed
		seen = len(p.events)
		p.mu.Unlock()
		for _, e := range events {
			if fits(e) {
				return e
			}
			if e.gone {
				t.Fatalf("%s: the connection ended before", what)
			}
		}
		select {
		case <-changed:
		case <-give:
			t.Fatalf("%s: nothing in %v", what, bridgetest.Timeout)
		}
	}
}

// count is how many events so far fit.
func (p *peer) count(fits func(event) bool) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.events {
		if fits(e) {
			n++
		}
	}
	return n
}

// head packs headers, given as "name: value". The usual ones need not be.
func (p *peer) head(lines ...string) []byte {
	p.block.Reset()
	usual := map[string]string{":method": "GET", ":scheme": "http", ":path": "/", ":authority": "example.com"}
	var rest []hpack.HeaderField
	for _, line := range lines {
		at := strings.Index(line[1:], ":") + 1
		name, value := line[:at], strings.TrimPrefix(line[at+1:], " ")
		if _, ok := usual[name]; ok {
			usual[name] = value
			continue
		}
		rest = append(rest, hpack.HeaderField{Name: name, Value: value})
	}
	for name, value := range usual {
		if value != "-" {
			rest = append([]hpack.HeaderField{{Name: name, Value: value}}, rest...)
		}
	}
	for _, f := range rest {
		_ = p.hpack.WriteField(f) // to memory
	}
	return bytes.Clone(p.block.Bytes())
}

// open opens a stream.
func (p *peer) open(stream uint32, ends bool, lines ...string) error {
	return p.WriteHeaders(http2.HeadersFrameParam{
		StreamID: stream, BlockFragment: p.head(lines...), EndHeaders: true, EndStream: ends,
	})
}

// answered matches the headers of a final response.
func answered(stream uint32) func(event) bool {
	return func(e event) bool {
		return e.kind == http2.FrameHeaders && e.stream == stream && !strings.HasPrefix(e.status, "1")
	}
}

func isGone(e event) bool { return e.gone }
