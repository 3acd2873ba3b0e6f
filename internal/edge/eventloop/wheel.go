//go:build linux

package eventloop

import (
	"math/bits"
	"time"
)

const (
	tick       = int64(16 * time.Millisecond)
	wheelSlots = 512 // a revolution takes eight seconds
)

// wheel has the connections with a deadline, by when they are to be looked at. That is rarely
// their deadline: one that moves to later, as most do, stays where it is, and one that is
// further away than a revolution is looked at once in each. So a deadline costs nothing
// in the usual case, and no more than linking a list in others.
type wheel struct {
	slots  [wheelSlots]*Conn // lists, linked by Conn.timer
	filled [wheelSlots / 64]uint64
	done   int64 // the last tick that was looked at
	count  int
}

// timer is the place of a connection in the wheel.
type timer struct {
	tick       int64 // 0 if it is in none
	prev, next *Conn
}

func (w *wheel) empty() bool { return w.count == 0 }

// due reports whether a tick has passed.
func (w *wheel) due(now int64) bool { return now/tick > w.done }

// A tick is the time between two looks. Shorter ones would wake an idle loop more often, longer
// ones make timeouts late by more than people notice.

// place makes sure that a connection is looked at soon after a time.
func (w *wheel) place(c *Conn, at int64) {
	want := min(max(at/tick, w.done)+1, w.done+wheelSlots-1)
	if c.timer.tick != 0 {
		if c.timer.tick <= want {
			return
		}
		w.remove(c)
	}
	i := want % wheelSlots
	head := w.slots[i]
	c.timer = timer{tick: want, next: head}
	if head != nil {
		head.timer.prev = c
	}
	w.slots[i] = c
	w.filled[i/64] |= 1 << (i % 64)
	w.count++
}

// remove takes a connection out, if it is in the wheel.
func (w *wheel) remove(c *Conn) {
	if c.timer.tick == 0 {
		return
	}
	i := c.timer.tick % wheelSlots
	if c.timer.next != nil {
		c.timer.next.timer.prev = c.timer.prev
	}
	if c.timer.prev != nil {
		c.timer.prev.timer.next = c.timer.next
	} else if w.slots[i] = c.timer.next; c.timer.next == nil {
		w.filled[i/64] &^= 1 << (i % 64)
	}
	c.timer = timer{}
	w.count--
}

// next returns when the first connection is to be looked at. The wheel is not empty.
func (w *wheel) next() int64 {
	start := (w.done + 1) % wheelSlots
	for step := int64(0); step <= wheelSlots; {
		i := (start + step) % wheelSlots
		if word := w.filled[i/64] >> (i % 64); word != 0 {
			return (w.done + 1 + step + int64(bits.TrailingZeros64(word))) * tick
		}
		step += 64 - i%64
	}
	return (w.done + wheelSlots) * tick
}

// advance looks at the connections of the ticks that have passed. look returns when the
// connection is to be looked at again, 0 for never.
func (w *wheel) advance(now int64, look func(*Conn) int64) {
	last := now / tick
	first := max(w.done+1, last-wheelSlots+1)
	w.done = last
	for t := first; t <= last; t++ {
		for c := w.slots[t%wheelSlots]; c != nil; {
			next := c.timer.next
			if c.timer.tick <= last {
				w.remove(c)
				if again := look(c); again != 0 {
					w.place(c, again)
				}
			}
			c = next
		}
	}
}
