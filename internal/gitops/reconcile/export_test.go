package reconcile

import "slipway.dev/slipway/internal/gitops/tracking"

// Busy is how many items wait, are processed, or come within a moment.
func (c *Controller) Busy() int {
	return c.queue.busy() + c.polls.busy()
}

func (q *queue) busy() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	busy := max(q.work.Len(), len(q.pending)) + len(q.working)
	for _, times := range q.times {
		if _, soon := times[reasonLive]; soon {
			busy++
		}
	}
	return busy
}

// Look enqueues an Application as if it had changed.
func (c *Controller) Look(name, namespace string) {
	c.queue.add(item{app: tracking.App{Namespace: namespace, Name: name}}, reasonChange)
}

// Polled is how many repositories are polled.
func (c *Controller) Polled() int { return len(c.repositories.addresses(false)) }
