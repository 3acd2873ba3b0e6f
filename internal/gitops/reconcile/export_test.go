package reconcile

import "slipway.dev/slipway/internal/gitops/tracking"

// Busy is how many tasks wait, are worked on, or come within a moment.
func (c *Controller) Busy() int {
	return c.queue.busy() + c.polls.busy()
}

func (q *queue) busy() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	busy := len(q.order) + len(q.working)
	for _, one := range q.times.heap {
		if one.why == becauseLive {
			busy++
		}
	}
	return busy
}

// Look has an Application looked at as if it had changed.
func (c *Controller) Look(name, namespace string) {
	c.queue.add(task{app: tracking.App{Namespace: namespace, Name: name}}, becauseAsked)
}
