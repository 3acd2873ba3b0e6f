//go:build linux

package eventloop

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// silent is an entry that counts its events.
type silent struct{ events int }

func (s *silent) happened(uint32, *Loop) { s.events++ }

// TestStaleEvents ignores events that were fetched for a socket whose slot another one has
// since.
func TestStaleEvents(t *testing.T) {
	l := &Loop{}
	first, second := &silent{}, &silent{}
	old, next := &slot{}, &slot{}
	if err := l.table.add(old, first); err != nil {
		t.Fatal(err)
	}
	fetched := []unix.EpollEvent{{Events: unix.EPOLLIN, Fd: old.index, Pad: old.generation}}
	l.dispatch(fetched)
	l.table.remove(old)
	l.dispatch(fetched)
	if err := l.table.add(next, second); err != nil || next.index != old.index {
		t.Fatalf("the slot %d was not used again, but %v: %v", old.index, next, err)
	}
	l.dispatch(fetched)
	if first.events != 1 || second.events != 0 {
		t.Errorf("%d events of the first socket, %d of the second", first.events, second.events)
	}
}

// TestWheel looks at each connection soon after its time, and never before, also those that are
// further away than a revolution.
func TestWheel(t *testing.T) {
	var w wheel
	due := map[*Conn]int64{}
	for _, after := range []int64{0, 1, 5, 63, 64, 65, 300, 511, 512, 513, 5000} {
		c := &Conn{}
		due[c] = after*tick + 3
		w.place(c, due[c])
		w.place(c, due[c]+900*tick) // later: it stays
	}
	moved := &Conn{}
	w.place(moved, 400*tick)
	w.place(moved, 10*tick) // earlier: it moves
	due[moved] = 10 * tick
	removed := &Conn{}
	w.place(removed, 20*tick)
	w.remove(removed)
	w.remove(removed)
	for clock := int64(0); !w.empty(); {
		at := w.next()
		if at <= clock {
			t.Fatalf("at %d the next time is %d", clock, at)
		}
		clock = at
		w.advance(clock, func(c *Conn) int64 {
			at, ok := due[c]
			switch {
			case !ok:
				t.Errorf("looked at a connection that is not there, at %d", clock)
			case at > clock:
				return at // too early: again
			case clock-at > 2*tick:
				t.Errorf("looked at %d for %d", clock, at)
			}
			delete(due, c)
			return 0
		})
		if clock > 6000*tick {
			t.Fatal("the wheel does not empty")
		}
	}
	if len(due) > 0 {
		t.Errorf("%d connections were not looked at", len(due))
	}
}

// TestWheelAfterPause looks at everything that is due after a stop of the clock.
func TestWheelAfterPause(t *testing.T) {
	var w wheel
	for after := range int64(wheelSlots) {
		w.place(&Conn{}, after*tick)
	}
	looked := 0
	w.advance(100*wheelSlots*tick, func(*Conn) int64 { looked++; return 0 })
	if looked != wheelSlots || !w.empty() {
		t.Errorf("looked at %d of %d", looked, wheelSlots)
	}
}

// TestExpire distinguishes the two deadlines of a connection.
func TestExpire(t *testing.T) {
	for _, test := range []struct{ read, write, again int64 }{
		{0, 0, 0}, {50, 0, 0}, {150, 0, 150}, {0, 150, 150}, {150, 120, 120}, {120, 150, 120}, {50, 150, 150}, {150, 50, 150},
	} {
		c := &Conn{}
		c.read.deadline, c.write.deadline = test.read, test.write
		if again := c.expire(100); again != test.again {
			t.Errorf("%+v: again at %d", test, again)
		}
		if c.read.expired.Load() != (test.read == 50) || c.write.expired.Load() != (test.write == 50) {
			t.Errorf("%+v: expired %v, %v", test, c.read.expired.Load(), c.write.expired.Load())
		}
	}
}

// TestQuietest gives connections to the loop that has fewer, unless there is hardly a difference.
func TestQuietest(t *testing.T) {
	g := &Group{loops: []*Loop{{index: 0}, {index: 1}}}
	for _, test := range []struct {
		first, second int64
		want          int
	}{{0, 0, 0}, {2, 0, 0}, {3, 0, 1}, {100, 90, 0}, {100, 80, 1}, {0, 100, 0}} {
		g.loops[0].conns.Store(test.first)
		g.loops[1].conns.Store(test.second)
		if got := g.quietest(g.loops[0]); got.index != test.want {
			t.Errorf("%d and %d connections: loop %d", test.first, test.second, got.index)
		}
	}
}

// TestPlaces frees the place of a connection that is closed, and takes one in the other loop for one that moves, which
// then is checked as a new one.
func TestPlaces(t *testing.T) {
	g, err := New(2)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[1])
	c, err := g.loops[0].newConn(pair[0], nil, netip.AddrPort{})
	if err != nil {
		t.Fatal(err)
	}
	c.read.state.Store(nil)
	if err := c.Move(g.loops[1]); err != nil {
		t.Fatal(err)
	}
	if c.read.state.Load() != isReady {
		t.Error("a connection that moved waits for an event that its loop may not get")
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for i, l := range g.loops {
		if n := l.conns.Load(); n != 0 || len(l.table.free) != 1 {
			t.Errorf("loop %d counts %d connections, %d places are free", i, n, len(l.table.free))
		}
	}
}
