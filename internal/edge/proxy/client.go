package proxy

import (
	"errors"
	"io"
	"net"
	"strconv"
	"time"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/edge/program"
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
	reader *h1.Reader
	writer *h1.Writer
	peer   h1.Peer

	head     h1.Head
	response h1.ResponseHead
	body     h1.Body // of the response
	upload   h1.Body // of the request
	x        filter.Exchange
	request  program.Request
	forward  h1.ForwardPlan
	reply    h1.ReplyPlan
	record   Record

	edits    []h1.Edit // of an answer of the edge's own
	target   []byte    // what the backend is asked for, when that was rewritten
	outgoing []byte    // the head for the backend
	incoming []byte    // the head for the client
}

func newClient(p *Proxy, conn net.Conn, from Accepted) *client {
	c := &client{
		proxy: p, net: conn, from: from,
		reader: h1.NewReader(conn, p.cfg.Pool, p.cfg.Timeouts),
		writer: h1.NewWriter(conn, p.cfg.Pool, p.cfg.Timeouts),
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
	return c
}

// serve answers one request after the other, until a side wants to end.
func (c *client) serve() {
	defer c.net.Close()
	defer c.reader.Close()
	for {
		if err := c.reader.ReadRequest(&c.head, &c.proxy.cfg.Limits); err != nil {
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
	c.record = Record{
		EntryPoint: c.from.EntryPoint, Client: c.from.Client.Addr(), TLS: c.from.TLS,
		Began: time.Now(), Reason: reason,
	}
	c.x.Begin(&c.head, 0)
	c.sendAnswer(&filter.Answer{Status: status, Reason: reason}, true)
	c.observe()
	c.linger()
}

// linger reads what the client is still sending, so that it gets the answer.
func (c *client) linger() {
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

func (c *client) observe() {
	if c.proxy.cfg.Observe == nil {
		return
	}
	c.record.Duration = time.Since(c.record.Began)
	c.proxy.cfg.Observe(&c.record)
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

// tunnel joins the two sides after 101, until both have ended. early is what
// the endpoint has sent already.
func (c *client) tunnel(upstream net.Conn, early []byte) {
	// A tunnel may be silent for as long as its two ends like.
	if c.net.SetDeadline(time.Time{}) != nil || upstream.SetDeadline(time.Time{}) != nil {
		return
	}
	if _, err := c.net.Write(early); err != nil {
		return
	}
	if _, err := upstream.Write(c.reader.Unread()); err != nil {
		return
	}
	c.reader.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		pipe(upstream, c.net)
	}()
	pipe(c.net, upstream)
	<-ended
}

// pipe copies one direction and passes its end on. What cannot be written to
// is closed, so that the other direction ends too.
func pipe(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
		_ = half.CloseWrite()
		return
	}
	to.Close()
	from.Close()
}
