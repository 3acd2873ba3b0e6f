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
	// maxChecks bounds the checks that run at a time. Each takes a goroutine
	// while it runs; endpoints that black-hole them take one for a timeout.
	maxChecks = 512
	// firstCheck bounds the wait for the first check of an endpoint. Waits are
	// at random, so that the endpoints of a new table are not asked all at once.
	firstCheck = time.Second
)

// checker runs the health checks that backends declare. One serves the whole
// Set: between checks there is nothing of an endpoint but its place in a queue,
// and one timer for the first of them.
//
// An endpoint is asked first within a second, and then at the interval, give or
// take a tenth. It passes from the beginning, fails after as many failures in a
// row as its check says, and passes again after as many successes. That
// survives every change of the table but the end of the check.
type checker struct {
	set *Set

	mu      sync.Mutex
	queue   checkQueue
	running int
	timer   *time.Timer // nil before the first use
}

// probe is the checking of one endpoint. The checker's mutex guards it.
type probe struct {
	endpoint *Endpoint
	plan     checkPlan
	due      int64
	index    int  // in the queue; -1 while it runs
	dropped  bool // it ends when it has run

	passed, failed int // in a row
}

// checkPlan is how an endpoint is asked. It does not change.
type checkPlan struct {
	check  *route.HealthCheck // with its defaults
	dialer *dialer
	host   string
	// target is the endpoint, or its other port.
	target *Endpoint
}

// update brings the checks of a backend up to date.
func (c *checker) update(b *route.Backend, r *endpointSet) {
	var check *route.HealthCheck
	if b.HealthCheck != nil && r.dialer != nil {
		settled := b.HealthCheck.Settled()
		check = &settled
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range r.entries {
		// What has not changed stays the same value, which is quick to compare.
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

// forget ends the checks of an endpoint that left.
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

// schedule begins or changes the checks of an endpoint. It is called with mu held.
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

// cancel is called with mu held.
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

// closeTarget lets go of the connections to another port.
func (p *probe) closeTarget() {
	if p.plan.target != p.endpoint {
		p.plan.target.close()
	}
}

// arm sets the timer for the first check that is due. It is called with mu
// held.
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

// runDue starts what is due.
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

// finish takes in the result of a check and plans the next.
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

// record is called with mu held.
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

// stop ends the timer. The checks that run end with the Set.
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

// jitter is base and something more, up to spread.
func jitter(base, spread time.Duration) time.Duration {
	return base + time.Duration(rand.Int64N(int64(max(spread, 1))))
}

// setCheckResult takes in what checks say about an endpoint: nil that it works.
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

// Len is the number of probes.
func (q checkQueue) Len() int { return len(q) }

// Less says which is due first.
func (q checkQueue) Less(i, j int) bool { return q[i].due < q[j].due }

// Swap swaps two probes.
func (q checkQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push adds a probe at the end.
func (q *checkQueue) Push(x any) {
	p := x.(*probe)
	p.index = len(*q)
	*q = append(*q, p)
}

// Pop takes the last one.
func (q *checkQueue) Pop() any {
	last := len(*q) - 1
	p := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	p.index = -1
	return p
}
