package proxy

import (
	"time"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/edge/prefetch"
	"slipway.dev/slipway/internal/edge/program"
)

// The answers that need no rule.
var (
	noProgram  = &filter.LocalResponse{Status: 503, Reason: "NotReady"}
	noRoute    = &filter.LocalResponse{Status: 404, Reason: "NoRoute"}
	noEndpoint = &filter.LocalResponse{Status: 503, Reason: "NoEndpoint"}
	badGateway = &filter.LocalResponse{Status: 502, Reason: "BadGateway"}
	timedOut   = &filter.LocalResponse{Status: 504, Reason: "GatewayTimeout"}
	tooLarge   = &filter.LocalResponse{Status: 413, Reason: "BodyTooLarge"}
	answerSize = &filter.LocalResponse{Status: 502, Reason: "ResponseTooLarge"}
)

// exchange answers the request whose head was read: it finds the rule, runs
// its filters, forwards or answers, and tells the observer. It reports whether
// the connection can take another request.
func (c *client) exchange() (keep bool) {
	now := time.Now()
	uri := &c.head.URI
	c.request = program.Request{
		EntryPoint: c.from.EntryPoint,
		TLS:        c.secure(),
		Host:       normalize.View(uri.Host),
		Path:       normalize.View(uri.Path),
		Method:     normalize.View(c.head.Method()),
		Query:      normalize.View(uri.Query),
		Header:     c,
	}
	c.open(now)
	c.tally = c.proxy.counters.unrouted
	c.record.Client = c.clientAddress()
	c.record.Method, c.record.Host, c.record.Path = c.request.Method, c.request.Host, c.request.Path
	c.record.Head = &c.head
	c.up, c.continued = sending{}, false
	defer c.over()
	c.begin(0)
	compiled := c.proxy.program.Load()
	switch {
	case compiled == nil:
		return c.answer(noProgram)
	case c.proxy.full():
		return c.answer(overloaded)
	}
	found := compiled.Lookup(&c.request)
	if found.Rule == nil {
		return c.answer(noRoute)
	}
	c.record.Rule = found.Rule
	b := found.Binding.(*binding)
	c.record.unrecorded, c.tally = &b.unrecorded, b.tally
	prefetch.ForReading(b.only)
	b.tally.prefetch()
	if admit := c.proxy.cfg.Admit; admit != nil {
		if answer := admit(&c.from, c.request.Host, found.Rule); answer != nil {
			return c.answer(answer)
		}
	}
	if b.refused != nil {
		return c.answer(b.refused)
	}
	if b.chain.Empty() {
		return c.fulfil(b, 0)
	}
	return c.filtered(b)
}

// filtered runs the filters around the rest.
func (c *client) filtered(b *binding) (keep bool) {
	c.begin(b.chain.Marks())
	c.describe()
	ran, answer := b.chain.Request(&c.x)
	defer b.chain.Done(&c.x, ran)
	c.record.User = c.x.User
	if answer != nil {
		return c.own(b, ran, answer)
	}
	return c.fulfil(b, ran)
}

// describe tells filters and tracers about the request.
func (c *client) describe() {
	c.x.Now = c.record.Began
	c.x.Client = c.record.Client
	c.x.TLS = c.request.TLS
	c.x.ServerPort = c.from.Local.Port()
	c.x.Certificate = c.from.Certificate
	c.x.Bufferer = c
}

// fulfil gives what the rule promises: its own response, or a backend's.
func (c *client) fulfil(b *binding, ran int) (keep bool) {
	answer := b.response
	if answer == nil {
		keep, answer = c.ask(b, ran)
	}
	if answer == nil {
		return keep
	}
	return c.own(b, ran, answer)
}

// own gives an answer of the edge's own, in the form that error pages and
// filters give to it.
func (c *client) own(b *binding, ran int, answer *filter.LocalResponse) (keep bool) {
	if len(c.x.Pages) > 0 {
		answer = c.ownPage(answer)
	}
	b.chain.Response(&c.x, ran, answer.Status)
	return c.answer(answer)
}

// ask forwards the request, to another endpoint when one fails in a way that
// allows it. It returns an answer when no endpoint gave one.
func (c *client) ask(b *binding, ran int) (keep bool, answer *filter.LocalResponse) {
	if answer := c.holdRequest(); answer != nil {
		return false, answer
	}
	if trace := c.proxy.cfg.Trace; trace != nil {
		if b.chain.Empty() {
			c.describe()
		}
		c.finish = trace(&c.record, &c.x)
	}
	c.asked = time.Since(c.record.Began)
	if len(c.x.Mirrors) > 0 {
		c.mirror()
		defer c.mirrorRest()
	}
	if b.times.idle > 0 {
		defer c.setIdle(b.times.idle)()
	}
	if c.x.Retry != nil {
		b.budget.earn(time.Now())
	}
	return c.askUntil(b, ran)
}

// askUntil makes one attempt after the other, until one is the last.
func (c *client) askUntil(b *binding, ran int) (keep bool, answer *filter.LocalResponse) {
	lane, err := c.pick(b)
	fresh := false
	for {
		if err != nil {
			c.record.Reason = err.Error()
			return false, unavailable(err)
		}
		c.record.Attempts++
		endpoint := lane.lease.Endpoint()
		result := c.attempt(b, &lane, fresh, ran)
		lane.lease.Done(result.outcome)
		switch {
		case result.failure == succeeded:
			return result.keep, result.answer
		case result.stale && !fresh:
			// A pooled connection that died says nothing about its endpoint: the
			// same one is asked again, on a new connection.
			fresh = true
		case result.settled || c.mayRetry(b, result.failure):
			if !c.pause(b, result.wait) {
				return false, timedOut
			}
			fresh, lane.choice.Avoid = false, endpoint
		default:
			return result.keep, result.answer
		}
		lane.lease, err = lane.handle.Pick(lane.choice)
	}
}

// setIdle bounds the waits for the client's side of a body. What it returns
// restores the entry point's own bounds.
func (c *client) setIdle(idle time.Duration) (restore func()) {
	own := *c.times
	times := own
	times.Body, times.Write = idle, idle
	c.reader.SetTimeouts(times)
	c.writer.SetTimeouts(times)
	return func() {
		c.reader.SetTimeouts(own)
		c.writer.SetTimeouts(own)
	}
}

// left is a wait, cut to what is left of the rule's total; at least a moment,
// because 0 means the default. Without a wait it is all that is left.
func (c *client) left(b *binding, wait time.Duration) time.Duration {
	if b.times.total == 0 {
		return wait
	}
	left := max(b.times.total-time.Since(c.record.Began), time.Millisecond)
	if wait == 0 {
		return left
	}
	return min(wait, left)
}
