package proxy

import (
	"errors"
	"net"
	"strconv"
	"time"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/edge/program"
	"slipway.dev/slipway/internal/edge/upstream"
)

const (
	// lingerTime and lingerBytes bound what is read after an answer that closes
	// the connection. Closing with bytes unread makes the kernel reset it, and
	// the client may then lose the answer.
	lingerTime  = time.Second
	lingerBytes = 256 << 10
)

// client is one connection and the memory of its exchanges, which follow one
// another.
type client struct {
	proxy  *Proxy
	net    net.Conn
	from   Accepted
	stream bool // the connection is one exchange of another protocol
	reader *h1.Reader
	writer *h1.Writer
	peer   h1.Peer
	limits *h1.Limits
	times  *h1.Timeouts
	// presence is nil where it is not known.
	presence goneDetector

	head     h1.Head
	response h1.ResponseHead
	body     h1.Body // of the response
	upload   h1.Body // of the request
	x        filter.Exchange
	request  program.Request
	forward  h1.ForwardPlan
	reply    h1.ResponsePlan
	record   Record

	edits    []h1.Edit // of an answer of the edge's own
	target   []byte    // what the backend is asked for, when that was rewritten
	outgoing []byte    // the head for the backend
	incoming []byte    // the head for the client

	// What belongs to the exchange that runs, until it is over.
	asked     time.Duration  // when a backend was first asked, after the start; 0 is never
	tried     time.Duration  // when the last attempt began, where that matters
	conn      *upstream.Conn // of the last attempt
	reusable  bool           // conn can be used again
	total     *time.Timer    // closes conn when the rule's time is over
	patience  time.Duration  // how long the head of the answer is waited for
	waited    time.Duration  // how much of that is over
	departed  bool           // the client has, while its answer was waited for
	leaving   func() bool    // stops what closes conn when the client of a stream leaves
	up        sending
	transfer  h1.Transfer // of the request
	relay     relay
	held      *bufferedBody       // the request's body, when it is in memory
	heldReply *bufferedBody       // the response's
	encoder   *filter.Encoder     // makes the response shorter
	page      *filter.Subresponse // the page for an error
	copies    []*filter.Mirror
	copied    *bufferedBody    // what of the request's body is there for them
	continued bool             // the client was told to send its body
	finish    func()           // tells the tracer
	tally     *requestCounters // of the rule that took the request
	upDrain   drain
	downDrain drain
	lastChunk []byte
}

func newClient(p *Proxy, conn net.Conn, from Accepted) *client {
	c := new(client)
	c.attach(p, conn, from)
	return c
}

// attach gives a client its connection.
func (c *client) attach(p *Proxy, conn net.Conn, from Accepted) {
	c.proxy, c.net, c.from = p, conn, from
	c.presence = goneDetectorOf(conn)
	c.limits, c.times = &p.cfg.Limits, &p.cfg.Timeouts
	if from.Limits != nil {
		c.limits = from.Limits
	}
	if from.Timeouts != nil {
		c.times = from.Timeouts
	}
	c.reader = h1.NewReader(conn, p.cfg.Pool, *c.times)
	c.writer = h1.NewWriter(conn, p.cfg.Pool, *c.times)
	if c.from.Protocol == "" {
		c.from.Protocol = "HTTP/1.1"
	}
	c.peer = h1.Peer{
		Trusted: from.Trusted,
		Address: from.Client.Addr().Unmap().String(),
		Proto:   "http",
		Port:    strconv.Itoa(int(from.Local.Port())),
		Server:  p.cfg.Name,
	}
	if from.TLS {
		c.peer.Proto = "https"
	}
}

// serve answers one request after the other, until a side wants to end.
func (c *client) serve() {
	defer c.net.Close()
	defer c.reader.Close()
	for {
		if err := c.reader.ReadRequest(&c.head, c.limits); err != nil {
			c.refuse(err)
			return
		}
		if !c.exchange() {
			return
		}
	}
}

// refuse answers what is not a request, if there is anything to answer.
func (c *client) refuse(err error) {
	status, reason := 0, ""
	var fault h1.Fault
	var flaw normalize.Flaw
	switch {
	case errors.As(err, &fault):
		status, reason = fault.Status(), fault.Error()
	case errors.As(err, &flaw):
		status, reason = flaw.Status(), flaw.Error()
	default:
		// The client went away, or sent nothing in time.
		return
	}
	c.turnAway(&filter.LocalResponse{Status: status, Reason: reason})
}

// turnAway answers a client that no rule is looked for, and is done with it.
func (c *client) turnAway(a *filter.LocalResponse) {
	c.open(time.Now())
	c.record.Client = c.from.Client.Addr()
	c.begin(0)
	c.sendAnswer(a, true)
	c.observe()
	c.linger()
}

// open begins the record of a request, with what the connection says.
func (c *client) open(now time.Time) {
	c.asked, c.tried = 0, 0
	c.record = Record{
		EntryPoint: c.from.EntryPoint, Peer: c.from.Client, Protocol: c.from.Protocol,
		TLS: c.from.TLS, TLSVersion: c.from.TLSVersion, CipherSuite: c.from.CipherSuite, Began: now,
	}
}

// begin makes the exchange ready for a request.
func (c *client) begin(marks int) {
	c.x.Begin(&c.head, marks)
	if len(c.from.Edits) > 0 {
		c.x.ResponseEdits = append(c.x.ResponseEdits, c.from.Edits...)
	}
}

// linger reads what the client is still sending, so that it gets the answer. A
// stream needs none: its end is said apart from its answer.
func (c *client) linger() {
	if c.stream {
		return
	}
	half, ok := c.net.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || c.net.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	buf := c.proxy.cfg.Pool.Get(1)
	defer c.proxy.cfg.Pool.Put(buf)
	for total := 0; total < lingerBytes; {
		n, err := c.net.Read(buf)
		if err != nil {
			return
		}
		total += n
	}
}

// observe tells who wants to know that the exchange is over.
func (c *client) observe() {
	if c.proxy.cfg.Observe == nil && c.finish == nil && c.tally == nil {
		return
	}
	c.record.Duration = time.Since(c.record.Began)
	c.count()
	if c.asked > 0 {
		c.record.Upstream = c.record.Duration - c.asked
	}
	if c.finish != nil {
		c.finish()
		c.finish = nil
	}
	if c.proxy.cfg.Observe != nil {
		c.proxy.cfg.Observe(&c.record)
	}
}

// count adds the exchange to those of its rule. What became a tunnel took as long
// as its answer did: how long it is used says nothing about the backend.
func (c *client) count() {
	if c.tally == nil {
		return
	}
	took := c.record.Duration
	if c.record.Upgraded {
		took = c.record.Responded
	}
	c.tally.observe(c.record.Status, took)
	c.tally = nil
}

// over ends an exchange. Heads are parts of what connections lend, so the
// observer comes first.
func (c *client) over() {
	c.observe()
	c.settle()
	c.held.release()
	c.heldReply.release()
	c.copied.release()
	c.held, c.heldReply, c.copied = nil, nil, nil
	if c.encoder != nil {
		c.encoder.Release()
		c.encoder = nil
	}
	if c.page != nil {
		c.page.Close()
		c.page = nil
	}
}

// settle ends the use of the connection to an endpoint. It can be used again
// only if nothing is going to close it.
func (c *client) settle() {
	if c.conn == nil {
		return
	}
	if c.total != nil {
		c.reusable = c.total.Stop() && c.reusable
		c.total = nil
	}
	if c.leaving != nil {
		c.reusable = c.leaving() && c.reusable
		c.leaving = nil
	}
	if c.reusable {
		c.conn.Release()
	} else {
		c.conn.Close()
	}
	c.conn, c.reusable = nil, false
}

// Value gives the headers of the request to the conditions of rules.
func (c *client) Value(name string, i int) (string, bool) {
	for line := range c.head.Len() {
		if !normalize.SameField(c.head.Name(line), normalize.Bytes(name)) {
			continue
		}
		if i == 0 {
			return normalize.View(c.head.Value(line)), true
		}
		i--
	}
	return "", false
}
