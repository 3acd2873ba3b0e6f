// Package link is what both ends of a tunnel do to a connection: a WebSocket that
// carries yamux streams, with deadlines, and frames that leave room for each other.
//
// It promises that silence ends a connection, that a stream which nobody reads
// holds a bounded amount of memory and stops no other, and that a frame is one
// message. It refuses nothing: who may connect is decided before.
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

// Counter counts bytes. It is a counter of Prometheus.
type Counter interface{ Add(float64) }

// Link is a WebSocket as a yamux session uses it: every read and every write has a
// deadline, and a header travels in one message with what it is about.
type Link struct {
	net.Conn
	socket *websocket.Conn
	cancel context.CancelFunc
	dead   time.Duration
	in     Counter
	out    Counter

	// frame is a header whose body comes with the next write. Only the session's
	// one sending goroutine writes.
	frame []byte
}

// New takes over a WebSocket. Nothing may be silent for longer than dead.
func New(socket *websocket.Conn, dead time.Duration, in, out Counter) *Link {
	ctx, cancel := context.WithCancel(context.Background())
	return &Link{
		Conn:   websocket.NetConn(ctx, socket, websocket.MessageBinary),
		socket: socket, cancel: cancel, dead: dead,
		in: in, out: out,
	}
}

// Read gives up when nothing comes for as long as a connection may be silent. The
// other end sends pings, so silence means that it is gone.
func (l *Link) Read(p []byte) (int, error) {
	if err := l.Conn.SetReadDeadline(time.Now().Add(l.dead)); err != nil {
		return 0, err
	}
	n, err := l.Conn.Read(p)
	l.in.Add(float64(n))
	return n, err
}

// Write holds back the header of a data frame until its body is there: yamux
// writes them one after the other, and each write is a message and a system call.
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

// bodyFollows knows the header of a data frame: version, kind, flags, stream,
// length.
func bodyFollows(p []byte) bool {
	const data = 0
	return len(p) == frameHeader && p[1] == data && binary.BigEndian.Uint32(p[8:]) > 0
}

// Close ends the connection without the WebSocket's farewell: the other end may
// not be there to answer it.
func (l *Link) Close() error {
	err := l.socket.CloseNow()
	l.cancel()
	return err
}

// Settings are how the streams of one end behave.
type Settings struct {
	// Ping is how often something is sent when nothing else is, and Dead how long
	// nothing may come.
	Ping, Dead time.Duration
	// Close is how long the other end may go on after a stream was closed here.
	Close time.Duration
	Log   *slog.Logger
}

// Streams is the configuration of a session.
func Streams(settings Settings) *yamux.Config {
	return &yamux.Config{
		AcceptBacklog: backlog,
		// The link watches over the connection: a ping that waits behind data on a
		// slow line does not mean that the other end is gone.
		EnableKeepAlive:        false,
		KeepAliveInterval:      settings.Ping,
		ConnectionWriteTimeout: settings.Dead,
		MaxStreamWindowSize:    window,
		StreamOpenTimeout:      openTimeout,
		StreamCloseTimeout:     settings.Close,
		Logger:                 log.New(debugLog{settings.Log}, "", 0),
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

// Ping sends something at intervals until the session ends, so that the other end
// knows that this one is there.
func Ping(session *yamux.Session, every time.Duration) {
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
