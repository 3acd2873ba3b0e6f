package upstream

import (
	"container/heap"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"sync"
	"time"

	"slipway.dev/slipway/internal/route"
)

const (
	// maxChecks bounds the checks that run at a time. Each needs a goroutine
	// while it runs; an endpoint that drops packets keeps one for the whole
	// timeout.
	maxChecks = 512
	// firstCheck bounds the wait for the first check of an endpoint. Waits are
	// random, so that the endpoints of a new table are not checked all at once.
	firstCheck = time.Second
)

// checker runs the health checks that backends declare. One serves the whole
// Set: between checks an endpoint needs only its place in a queue, and there is
// one timer for the first of them.
//
// An endpoint is checked first within a second, and then at the interval, with
// a jitter of a tenth. It is healthy from the beginning, becomes unhealthy
// after as many failures in a row as its check declares, and healthy again
// after as many successes. That state survives every change of the table,
// except for the end of the check.
type checker struct {
	set *Set

	mu      sync.Mutex
	queue   checkQueue
	running int
	timer   *time.Timer // nil before the first use
}

// probe is the health check of one endpoint. The checker's mutex guards it.
type probe struct {
	endpoint *Endpoint
	plan     checkPlan
	due      int64
	index    int  // in the queue; -1 while it runs
	dropped  bool // it was cancelled while it runs

	passed, failed int // in a row
}

// checkPlan is how an endpoint is checked. It never changes: a probe gets
// another plan.
type checkPlan struct {
	check  *route.HealthCheck // with its defaults
	dialer *dialer
	host   string
	// target is the endpoint, or one with the same host for a check on another
	// port.
	target *Endpoint
}

// update applies the health check of a backend to all its endpoints.
func (c *checker) update(b *route.Backend, r *endpointSet) {
	var check *route.HealthCheck
	if b.HealthCheck != nil && r.dialer != nil {
		settled := b.HealthCheck.Settled()
		check = &settled
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range r.entries {
		// A check that has not changed keeps its pointer, so that plans compare
		// quickly.
		if p := r.entries[i].endpoint.probe; p != nil && check != nil && reflect.DeepEqual(p.plan.check, check) {
			check = p.plan.check
			break
		}
	}
	for i := range r.entries {
		e := r.entries[i].endpoint
		if check == nil {
			c.cancel(e)
			continue
		}
		c.schedule(e, checkPlan{check: check, dialer: r.dialer, host: checkHost(check, b, e)})
	}
	c.arm()
}

// forget ends the checks of an endpoint that was removed.
func (c *checker) forget(e *Endpoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancel(e)
}

func checkHost(check *route.HealthCheck, b *route.Backend, e *Endpoint) string {
	switch {
	case check.Host != "":
		return check.Host
	case b.Transport.Host != "":
		return b.Transport.Host
	}
	return e.address
}

// schedule starts or changes the checks of an endpoint. It is called with mu
// held.
func (c *checker) schedule(e *Endpoint, plan checkPlan) {
	p := e.probe
	if p != nil && p.plan.dialer == plan.dialer && p.plan.host == plan.host && p.plan.check == plan.check {
		return
	}
	plan.target = e
	if port := plan.check.Port; port != 0 && port != e.location.portNumber() {
		plan.target = newEndpoint(e.handle, e.location.atPort(port))
		plan.target.resetTransport(plan.dialer)
	}
	if p == nil {
		p = &probe{endpoint: e, plan: plan, index: -1}
		e.probe = p
		p.due = c.set.now() + int64(jitter(0, min(firstCheck, time.Duration(plan.check.Interval))))
		heap.Push(&c.queue, p)
		return
	}
	p.closeTarget()
	p.plan = plan
	if p.index >= 0 {
		p.due = c.set.now()
		heap.Fix(&c.queue, p.index)
	}
}

// cancel ends the checks of an endpoint and forgets their result. It is called
// with mu held.
func (c *checker) cancel(e *Endpoint) {
	p := e.probe
	if p == nil {
		return
	}
	e.probe = nil
	p.dropped = true
	if p.index >= 0 {
		heap.Remove(&c.queue, p.index)
		p.closeTarget()
	}
	h := e.handle
	h.healthMu.Lock()
	defer h.healthMu.Unlock()
	e.checkFailure.Store(nil)
	h.countUnhealthy()
}

// closeTarget closes the connections of a check on another port.
func (p *probe) closeTarget() {
	if p.plan.target != p.endpoint {
		p.plan.target.close()
	}
}

// arm sets the timer for the first check that is due. With as many as may run
// it does nothing: finish calls it again. It is called with mu held.
func (c *checker) arm() {
	if len(c.queue) == 0 || c.running >= maxChecks {
		return
	}
	wait := max(time.Duration(c.queue[0].due-c.set.now()), 0)
	if c.timer == nil {
		c.timer = time.AfterFunc(wait, func() { c.set.run(c.runDue) })
		return
	}
	c.timer.Reset(wait)
}

// runDue starts the checks that are due. It is called by the timer.
func (c *checker) runDue() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.set.now()
	for len(c.queue) > 0 && c.queue[0].due <= now && c.running < maxChecks {
		p := heap.Pop(&c.queue).(*probe)
		plan := p.plan
		if !c.set.start(func() { c.finish(p, plan, plan.run(c.set.stop)) }) {
			return
		}
		c.running++
	}
	c.arm()
}

// finish records the result of a check and schedules the next. The plan may
// have changed while the check ran; its result does not count then.
func (c *checker) finish(p *probe, plan checkPlan, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	defer c.arm()
	if p.dropped || c.set.stop.Err() != nil {
		p.closeTarget()
		return
	}
	p.due = c.set.now()
	if p.plan == plan {
		p.record(err)
		interval := max(time.Duration(plan.check.Interval), time.Millisecond)
		p.due += int64(jitter(interval-interval/10, interval/5))
	}
	heap.Push(&c.queue, p)
}

// record counts a result, and changes the health of the endpoint at its
// thresholds. It is called with mu held.
func (p *probe) record(err error) {
	e, check := p.endpoint, p.plan.check
	e.handle.set.stats.checks.Add(1)
	if err == nil {
		p.passed, p.failed = p.passed+1, 0
		if p.passed >= check.Healthy {
			e.handle.setCheckResult(e, nil)
		}
		return
	}
	e.handle.set.stats.checkFailures.Add(1)
	p.passed, p.failed = 0, p.failed+1
	if p.failed >= check.Unhealthy {
		e.handle.setCheckResult(e, err)
	}
}

// stop stops the timer. Running checks end with the context of the Set.
func (c *checker) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.queue {
		p.closeTarget()
	}
	c.queue = nil
	if c.timer != nil {
		c.timer.Stop()
	}
}

// jitter returns base plus a random time of up to spread.
func jitter(base, spread time.Duration) time.Duration {
	return base + time.Duration(rand.Int64N(int64(max(spread, 1))))
}

// setCheckResult changes whether an endpoint passes its checks: nil is that it
// does. Only a change is counted and logged.
func (h *Handle) setCheckResult(e *Endpoint, fault error) {
	var reason *string
	if fault != nil {
		text := fault.Error()
		reason = &text
	}
	h.healthMu.Lock()
	defer h.healthMu.Unlock()
	before := e.checkFailure.Swap(reason)
	if (before == nil) == (reason == nil) {
		return
	}
	h.countUnhealthy()
	name, address := slog.String("backend", h.id.String()), slog.String("endpoint", e.address)
	if reason != nil {
		h.set.stats.unhealthy.Add(1)
		h.set.cfg.Log.Warn("endpoint fails its health checks", name, address, slog.String("reason", *reason))
		return
	}
	h.set.stats.recovered.Add(1)
	h.set.cfg.Log.Info("endpoint passes its health checks", name, address)
}

// checkQueue is a heap: the check that is due first is at the top.
type checkQueue []*probe

// Len implements [heap.Interface].
func (q checkQueue) Len() int { return len(q) }

// Less implements [heap.Interface].
func (q checkQueue) Less(i, j int) bool { return q[i].due < q[j].due }

// Swap implements [heap.Interface].
func (q checkQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements [heap.Interface].
func (q *checkQueue) Push(x any) {
	p := x.(*probe)
	p.index = len(*q)
	*q = append(*q, p)
}

// Pop implements [heap.Interface].
func (q *checkQueue) Pop() any {
	last := len(*q) - 1
	p := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	p.index = -1
	return p
}
