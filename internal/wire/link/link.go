// Package link is the transport of both ends of a tunnel: a WebSocket that
// carries yamux streams, with timeouts and bounded frames.
//
// It guarantees that silence ends a connection, that a stream without a reader
// holds a bounded amount of memory and does not block others, and that a frame
// is one message. It authenticates no one: that happens before.
package link

import (
	"context"
	"encoding/binary"
	"log"
	"log/slog"
	"net"
	"time"

	"github.com/coder/websocket"
	"github.com/hashicorp/yamux"
)

const (
	// window is the flow-control window of a stream. Both ends buffer that much
	// of a stream without a reader, so it bounds memory; it also bounds
	// throughput, to 5 MB/s at a round-trip time of 50 ms.
	window = 256 << 10
	// chunk is the largest frame. A larger one would delay other streams on a
	// slow line.
	chunk = 32 << 10
	// backlog is the number of new streams that may wait to be accepted.
	backlog = 256
	// openTimeout bounds how long the other end may take to accept a stream.
	openTimeout = 30 * time.Second
	// frameHeader is the length of yamux's header.
	frameHeader = 12
)

// Counter counts bytes; a Prometheus counter implements it.
type Counter interface{ Add(float64) }

// Link is a WebSocket as the transport of a yamux session: every read and write
// has a deadline, and a header is sent in one message with its body.
type Link struct {
	net.Conn
	socket *websocket.Conn
	cancel context.CancelFunc
	dead   time.Duration
	in     Counter
	out    Counter

	// frame is a header whose body follows with the next write. Only the
	// session's single sending goroutine writes, so no lock is needed.
	frame []byte
}

// New takes over a WebSocket. dead is the read timeout.
func New(socket *websocket.Conn, dead time.Duration, in, out Counter) *Link {
	ctx, cancel := context.WithCancel(context.Background())
	return &Link{
		Conn:   websocket.NetConn(ctx, socket, websocket.MessageBinary),
		socket: socket, cancel: cancel, dead: dead,
		in: in, out: out,
	}
}

// Read fails after the read timeout without incoming data. The other end sends
// pings, so silence means that it is gone.
func (l *Link) Read(p []byte) (int, error) {
	if err := l.Conn.SetReadDeadline(time.Now().Add(l.dead)); err != nil {
		return 0, err
	}
	n, err := l.Conn.Read(p)
	l.in.Add(float64(n))
	return n, err
}

// Write delays the header of a data frame until its body follows: yamux writes
// them separately, and each write is a message and a system call.
func (l *Link) Write(p []byte) (int, error) {
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

// bodyFollows recognizes the header of a data frame: version, type, flags,
// stream ID, length.
func bodyFollows(p []byte) bool {
	const data = 0
	return len(p) == frameHeader && p[1] == data && binary.BigEndian.Uint32(p[8:]) > 0
}

// Close closes the connection without the WebSocket's closing handshake: the
// other end may be gone.
func (l *Link) Close() error {
	err := l.socket.CloseNow()
	l.cancel()
	return err
}

// Settings configure the streams of one end.
type Settings struct {
	// Ping is the keepalive interval, and Dead the read timeout.
	Ping, Dead time.Duration
	// Close is how long the other end may continue after a stream was closed
	// here.
	Close time.Duration
	Log   *slog.Logger
}

// Streams returns the configuration of a session.
func Streams(settings Settings) *yamux.Config {
	return &yamux.Config{
		AcceptBacklog: backlog,
		// The link's own deadline detects a dead connection: a ping that waits
		// behind data on a slow line does not mean that the other end is gone.
		EnableKeepAlive:        false,
		KeepAliveInterval:      settings.Ping,
		ConnectionWriteTimeout: settings.Dead,
		MaxStreamWindowSize:    window,
		StreamOpenTimeout:      openTimeout,
		StreamCloseTimeout:     settings.Close,
		Logger:                 log.New(debugLog{settings.Log}, "", 0),
	}
}

// debugLog is the log of yamux at debug level. Its errors are closed
// connections, which are logged elsewhere.
type debugLog struct{ log *slog.Logger }

// Write logs one line.
func (d debugLog) Write(line []byte) (int, error) {
	d.log.Debug("yamux", "message", string(line))
	return len(line), nil
}

// Ping sends pings until the session ends, so that the read timeout of the
// other end does not expire.
func Ping(session *yamux.Session, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			// A late response is no failure: the link's deadline decides.
			_, _ = session.Ping()
		case <-session.CloseChan():
			return
		}
	}
}

// Stream is one stream as a connection of HTTP.
type Stream struct{ *yamux.Stream }

// Write sends in frames that leave room for other streams.
func (s Stream) Write(p []byte) (int, error) {
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
