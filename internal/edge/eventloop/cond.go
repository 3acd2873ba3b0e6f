package eventloop

import (
	"sync"
	"time"
)

// Cond is a condition for which goroutines and tasks wait, with a deadline. As with sync.Cond, a
// lock guards the condition and the Cond, and the caller checks the condition again after
// each wait. A task is parked while it waits, so its loop goes on.
type Cond struct {
	cond     sync.Cond
	waiting  int
	parked   *Task // a list of those that wait
	deadline time.Time
	timer    *time.Timer
}

// Init sets the lock. It comes before all else.
func (c *Cond) Init(l sync.Locker) { c.cond.L = l }

// SetDeadline sets the end of the waits, and has those that wait check it; zero is none.
func (c *Cond) SetDeadline(t time.Time) {
	c.deadline = t
	c.Wake(nil)
}

// Expired reports whether the deadline has passed.
func (c *Cond) Expired() bool { return !c.deadline.IsZero() && !time.Now().Before(c.deadline) }

// Wait waits for Wake or for the deadline. by is the task that the caller is, or nil.
func (c *Cond) Wait(by *Task) {
	if !c.deadline.IsZero() {
		c.startTimer(time.Until(c.deadline))
	}
	c.waiting++
	if by.OnLoop() {
		by.parkedBelow, c.parked = c.parked, by
		c.cond.L.Unlock()
		by.Park()
		c.cond.L.Lock()
	} else {
		c.cond.Wait()
	}
	c.waiting--
}

func (c *Cond) startTimer(left time.Duration) {
	if c.timer != nil {
		c.timer.Reset(left)
		return
	}
	c.timer = time.AfterFunc(left, func() {
		c.cond.L.Lock()
		defer c.cond.L.Unlock()
		c.Wake(nil)
	})
}

// Wake makes those that wait check their condition. by is the task that the caller is: tasks
// of the same loop then need no detour to wake.
func (c *Cond) Wake(by *Task) {
	if c.waiting == 0 {
		return
	}
	c.cond.Broadcast()
	for c.parked != nil {
		task := c.parked
		c.parked, task.parkedBelow = task.parkedBelow, nil
		task.unpark(by)
	}
}

// Stop is Wake for a Cond that is not used any more. It ends its timer.
func (c *Cond) Stop() {
	if c.timer != nil {
		c.timer.Stop()
	}
	c.Wake(nil)
}
