//go:build linux

package eventloop

// A switch to a task and back takes longer than passing on a short message. What is done with one
// read and one write, and needs no stack while it waits, is a step: a function that the loop calls between the tasks.

// sharedBuffer is the size of the buffer in which steps of a loop read.
const sharedBuffer = 16 << 10

// Watch has a function called on the loop when there is something to read.
type Watch struct{ waiter waiter }

// NewWatch makes a watch that calls step, which must not wait for anything nor compute for long.
func NewWatch(step func()) *Watch { return &Watch{waiter{step: step}} }

// Watch calls the step of w once, when there is something to read, the read deadline has passed or
// the connection was closed. It is called on the loop. No task is bound to the connection then.
func (c *Conn) Watch(w *Watch) { c.awaitRead(&w.waiter, c.loop) }

// ReadShared returns what there is to read at once, for a step; nothing without an error if there
// is nothing. more reports that there may be more. The bytes are those of the loop: they are valid until the
// step returns.
func (c *Conn) ReadShared() (p []byte, more bool, err error) {
	if err := c.over(&c.read); err != nil {
		return nil, false, err
	}
	l := c.loop
	if l.shared == nil {
		l.shared = make([]byte, sharedBuffer)
	}
	n, err := c.readSome(l.shared)
	return l.shared[:n], n == len(l.shared), err
}
