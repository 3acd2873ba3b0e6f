package hub

import (
	"context"
	"encoding/binary"
	"log"
	"log/slog"
	"net"
	"time"

	"github.com/coder/websocket"
	"github.com/hashicorp/yamux"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	// window is how much of a stream may be under way. Both ends keep that much of a
	// stream that nobody reads, so it bounds memory; it also bounds speed, to 5 MB/s
	// over a way of 50 ms.
	window = 256 << 10
	// chunk is the largest frame. A larger one would keep the others waiting on a
	// slow line.
	chunk = 32 << 10
	// backlog is how many new streams may wait to be accepted.
	backlog = 256
	// openTimeout is how long the other end may take to accept a stream.
	openTimeout = 30 * time.Second
	// frameHeader is the length of yamux's header.
	frameHeader = 12
)

// link is a WebSocket as a yamux session uses it: every read and every write has a
// deadline, and a header travels in one message with what it is about.
type link struct {
	net.Conn
	socket *websocket.Conn
	cancel context.CancelFunc
	dead   time.Duration
	in     prometheus.Counter
	out    prometheus.Counter

	// frame is a header whose body comes with the next write. Only the session's
	// one sending goroutine writes.
	frame []byte
}

// newLink takes over a WebSocket.
func newLink(socket *websocket.Conn, dead time.Duration, bytes *prometheus.CounterVec) *link {
	ctx, cancel := context.WithCancel(context.Background())
	return &link{
		Conn:   websocket.NetConn(ctx, socket, websocket.MessageBinary),
		socket: socket, cancel: cancel, dead: dead,
		in: bytes.WithLabelValues("in"), out: bytes.WithLabelValues("out"),
	}
}

// Read gives up when nothing comes for as long as a connection may be silent. The
// other end sends pings, so silence means that it is gone.
func (l *link) Read(p []byte) (int, error) {
	if err := l.Conn.SetReadDeadline(time.Now().Add(l.dead)); err != nil {
		return 0, err
	}
	n, err := l.Conn.Read(p)
	l.in.Add(float64(n))
	return n, err
}

// Write holds back the header of a data frame until its body is there: yamux
// writes them one after the other, and each write is a message and a system call.
func (l *link) Write(p []byte) (int, error) {
	if len(l.frame) == 0 && bodyFollows(p) {
		l.frame = append(l.frame, p...)
		return len(p), nil
	}
	message := p
	if len(l.frame) > 0 {
		l.frame = append(l.frame, p...)
		message = l.frame
	}
	if err := l.Conn.SetWriteDeadline(time.Now().Add(l.dead / 2)); err != nil {
		return 0, err
	}
	_, err := l.Conn.Write(message)
	l.frame = l.frame[:0]
	if err != nil {
		return 0, err
	}
	l.out.Add(float64(len(message)))
	return len(p), nil
}

// bodyFollows knows the header of a data frame: version, kind, flags, stream,
// length.
func bodyFollows(p []byte) bool {
	const data = 0
	return len(p) == frameHeader && p[1] == data && binary.BigEndian.Uint32(p[8:]) > 0
}

// Close ends the connection without the WebSocket's farewell: the other end may
// not be there to answer it.
func (l *link) Close() error {
	err := l.socket.CloseNow()
	l.cancel()
	return err
}

// sessionConfig is how streams behave.
func sessionConfig(timing Timing, logger *slog.Logger) *yamux.Config {
	return &yamux.Config{
		AcceptBacklog: backlog,
		// The link watches over the connection: a ping that waits behind data on a
		// slow line does not mean that the other end is gone.
		EnableKeepAlive:        false,
		KeepAliveInterval:      timing.Ping,
		ConnectionWriteTimeout: timing.Dead,
		MaxStreamWindowSize:    window,
		StreamOpenTimeout:      openTimeout,
		// A stream is closed when nobody waits for its answer any longer. An agent that
		// goes on writing is told so after this time.
		StreamCloseTimeout: 5 * time.Second,
		Logger:             log.New(debugLog{logger}, "", 0),
	}
}

// debugLog is where yamux writes. What it calls errors are ends of connections,
// which are told elsewhere.
type debugLog struct{ log *slog.Logger }

// Write logs one line.
func (d debugLog) Write(line []byte) (int, error) {
	d.log.Debug("streams of the tunnel", "message", string(line))
	return len(line), nil
}

// ping sends something at intervals until the session ends, so that the other end
// knows that this one is there.
func ping(session *yamux.Session, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			// A late answer is no failure: the link's deadline decides.
			_, _ = session.Ping()
		case <-session.CloseChan():
			return
		}
	}
}

// stream is one stream as a connection of HTTP.
type stream struct{ *yamux.Stream }

// Write sends in frames that leave room for other streams.
func (s stream) Write(p []byte) (int, error) {
	total := 0
	for total < len(p) {
		n, err := s.Stream.Write(p[total:min(total+chunk, len(p))])
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}
