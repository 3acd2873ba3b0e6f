package proxy

import (
	"net"
	"syscall"
	"time"

	"slipway.dev/slipway/internal/edge/connset"
	"slipway.dev/slipway/internal/edge/eventloop"
	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/httperr"
)

const (
	// drainReadTime and drainReadBytes bound what is read after a response that
	// closes the connection. Closing with bytes unread makes the kernel reset
	// the connection, and the client may then lose the response.
	drainReadTime  = time.Second
	drainReadBytes = 256 << 10
)

// conn is a client's connection, or the stream of HTTP/2 or HTTP/3 that stands
// for one. It lives as long as the connection and is owned by one goroutine;
// only [Proxy.Drain] touches it from outside, through Reader.Interrupt. Its
// exchanges follow one another, so there is one exchange, and it is part of the
// conn: a request allocates nothing.
type conn struct {
	proxy    *Proxy
	net      net.Conn
	from     Accepted
	stream   bool // the connection carries one exchange of another protocol
	reader   *h1.Reader
	writer   *h1.Writer
	peer     h1.Peer
	limits   *h1.Limits
	timeouts *h1.Timeouts
	// sender is nil where responses are written as text.
	sender responseSender
	// gone is nil where a departed client cannot be detected.
	gone goneDetector
	// waiter is nil where the connection cannot rest; rest is nil before it did. served
	// is set after a request, and warm if requests come one soon after the other.
	waiter       readWaiter
	rest         *restingConn
	served, warm bool

	// task serves the connection on an event loop; nil where a goroutine does.
	task *eventloop.Task
	// departures counts the exchanges in a row for which the task had to leave its loop.
	departures int

	// head is the request that is being served. It is read before the exchange
	// begins, and its memory is reused for the next one.
	head     h1.Head
	buffers  buffers
	exchange exchange
	dirty    bool // exchange was used

	place connset.Place // guarded by proxy.mu

	// ownReader and ownWriter are what reader and writer point to. Drain interrupts the reader from another
	// goroutine, but only with proxy.mu and while the conn is registered: not the next user's.
	ownReader h1.Reader
	ownWriter h1.Writer
}

// buffers is the memory that a connection keeps from one exchange to the next.
// Nothing in it has a meaning between two exchanges.
type buffers struct {
	filters filter.Exchange
	// response is the head of the backend's response.
	response h1.ResponseHead
	// requestBody and responseBody follow the framing of the two bodies.
	requestBody, responseBody h1.Body
	// requestHead is what the backend gets, responseHead what the client gets.
	requestHead, responseHead []byte
	// target is the request target after a rewrite.
	target []byte
	// requestEnd and responseEnd are last chunks. They are two buffers because
	// an upload may end in its own goroutine while the response ends.
	requestEnd, responseEnd []byte
	// edits are the headers of a local response.
	edits []h1.Edit
	// mirrors wait for the body of the request.
	mirrors []*filter.Mirror
	// requestSink and responseSink are the writers of bodies that do not go
	// straight to the other side.
	requestSink, responseSink sinkWriter
}

// newConn returns a conn for a connection, or for a stream that stands for one. Both
// are many and short, so they are pooled: see release.
func newConn(p *Proxy, connection net.Conn, from *Accepted, stream bool) *conn {
	c, ok := p.pooled.Get().(*conn)
	if !ok {
		c = new(conn)
	}
	c.stream = stream
	c.attach(p, connection, from)
	return c
}

// Place implements [connset.Member].
func (c *conn) Place() *connset.Place { return &c.place }

// release gives a conn back whose connection was closed. Nothing may refer to it any
// more.
func (c *conn) release() {
	p := c.proxy
	c.detach()
	p.pooled.Put(c)
}

// attach gives a conn its connection, and the limits and timeouts of the entry
// point that accepted it.
func (c *conn) attach(p *Proxy, connection net.Conn, from *Accepted) {
	c.proxy, c.net, c.from = p, connection, *from
	c.gone = goneDetectorOf(connection)
	c.limits, c.timeouts = &p.cfg.Limits, &p.cfg.Timeouts
	if from.Limits != nil {
		c.limits = from.Limits
	}
	if from.Timeouts != nil {
		c.timeouts = from.Timeouts
	}
	c.reader, c.writer = &c.ownReader, &c.ownWriter
	c.writer.Init(connection, p.cfg.Pool, *c.timeouts)
	c.bindSocket()
	times := *c.timeouts
	if c.stream {
		// The head of a stream is there before it is served, and needs no deadline.
		times.Head = 0
		c.sender, _ = connection.(responseSender)
	} else {
		c.waiter = readWaiterOf(connection)
	}
	c.reader.Init(connection, p.cfg.Pool, times)
	if c.from.Protocol == "" {
		c.from.Protocol = "HTTP/1.1"
	}
	c.from.Describe()
	c.peer = h1.Peer{
		Trusted: from.Trusted,
		Address: c.from.clientText,
		Proto:   "http",
		Port:    c.from.portText,
		Server:  p.cfg.Name,
		Hop:     p.cfg.Hop,
	}
	if from.TLS {
		c.peer.Proto = "https"
	}
}

// bindSocket finds who waits for the connection, and how it is written to.
func (c *conn) bindSocket() {
	c.task = nil
	if stream, ok := c.net.(taskConn); ok {
		c.task = stream.Task()
		return
	}
	loop := eventloop.Of(c.net)
	if loop != nil {
		c.task = loop.Task()
	}
	if socket, ok := c.net.(syscall.Conn); ok { // without TLS
		if raw, err := socket.SyscallConn(); err == nil { // otherwise it is closed, or on a loop
			c.writer.UseRawConn(raw)
		}
		if loop != nil {
			c.writer.UseSocket(splicer{loop})
		}
	}
}

// serve serves one request after the other, until either side ends the
// connection, and closes it. A connection that is to rest stays open, and is
// returned.
func (c *conn) serve() (rest *restingConn) {
	defer func() {
		if rest == nil {
			c.net.Close()
		}
	}()
	defer c.reader.Close()
	for {
		if !c.rejoin() {
			return nil
		}
		err := c.readRequest()
		if err == errRest {
			return c.rest
		}
		if err != nil {
			c.rejectMalformed(err)
			return nil
		}
		if !c.begin(time.Now()).serve() {
			return nil
		}
		c.served = true
	}
}

// ServeStream serves the one request of a virtual connection, which stands for
// a stream of HTTP/2 or HTTP/3, and closes it. The response flows while the
// request's body does; a body that is still coming when the response has ended
// is stopped. The connection is not kept, upgraded or drained: that is for the
// connection below it.
func (p *Proxy) ServeStream(connection net.Conn, from Accepted) {
	c := newConn(p, connection, &from, true)
	c.serveStream()
	c.release()
}

// headTaker is a stream that has the head of its request in a buffer of the pool, and
// gives it away; nil if it has none.
type headTaker interface{ TakeHead() []byte }

// serveStream serves one request and closes the stream.
func (c *conn) serveStream() {
	defer c.net.Close()
	defer c.reader.Close()
	if composed, ok := c.net.(headTaker); ok {
		c.reader.Preload(composed.TakeHead())
	}
	if err := c.reader.ReadRequest(&c.head, c.limits); err != nil {
		c.rejectMalformed(err)
		return
	}
	c.begin(time.Now()).serve()
}

// detach drops every reference to the connection and its last exchange, and
// keeps the memory. A pooled conn must not keep another client's bytes alive.
func (c *conn) detach() {
	c.head.Reset()
	c.buffers.filters.Begin(&c.head, 0)
	c.buffers.filters.Head = nil
	c.exchange, c.dirty = exchange{}, false
	c.proxy, c.net, c.reader, c.writer = nil, nil, nil, nil
	c.ownReader = h1.Reader{}
	c.ownWriter.Reset()
	c.sender, c.gone, c.waiter, c.rest, c.served, c.warm = nil, nil, nil, nil, false, false
	c.task, c.departures = nil, 0
	c.from = Accepted{}
}

// rejectMalformed responds to bytes that are not a request. A client that went
// away, or sent nothing in time, gets no response.
func (c *conn) rejectMalformed(err error) {
	if broken := httperr.Of(err); broken.Status != 0 {
		c.reject(&filter.LocalResponse{Status: broken.Status, Reason: broken.Message})
	}
}

// reject sends a local response without looking for a rule, and is done with
// the client: after bytes that are no request the start of the next one is
// unknown, so the connection must not be used again.
func (c *conn) reject(local *filter.LocalResponse) {
	x := c.begin(time.Now())
	x.record.Client = c.from.Client.Addr()
	x.sendLocalResponse(local, true)
	x.observe()
	c.drainRead()
}

// drainRead reads what the client is still sending, so that it gets the
// response. A stream needs none: its protocol ends the two directions apart.
func (c *conn) drainRead() {
	if c.stream {
		return
	}
	half, ok := c.net.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || c.net.SetReadDeadline(time.Now().Add(drainReadTime)) != nil {
		return
	}
	buf := c.proxy.cfg.Pool.Get(1)
	defer c.proxy.cfg.Pool.Put(buf)
	for total := 0; total < drainReadBytes; {
		n, err := c.net.Read(buf)
		if err != nil {
			return
		}
		total += n
	}
}

// setIdleTimeout bounds the waits for the client's side of a body. It returns a
// function that restores the entry point's own timeouts.
func (c *conn) setIdleTimeout(idle time.Duration) (restore func()) {
	own := *c.timeouts
	timeouts := own
	timeouts.Body, timeouts.Write = idle, idle
	c.reader.SetTimeouts(timeouts)
	c.writer.SetTimeouts(timeouts)
	return func() {
		c.reader.SetTimeouts(own)
		c.writer.SetTimeouts(own)
	}
}
