package h1_test

import (
	"errors"
	"net"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// deadlines counts how often the deadline for reading is moved.
type deadlines struct {
	net.Conn
	moved int
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.moved++
	return d.Conn.SetReadDeadline(at)
}

// TestAwaitKeepsDeadline: a connection that is used again before a piece of a
// wait would be over does not get another deadline.
func TestAwaitKeepsDeadline(t *testing.T) {
	client, server := programs.Pipe(t)
	counted := &deadlines{Conn: client}
	r := h1.NewReader(counted, new(h1.BufferPool), h1.DefaultTimeouts())
	defer r.Close()
	limits := h1.DefaultLimits()
	var head h1.ResponseHead
	answers := func(count int) {
		t.Helper()
		for range count {
			write(t, server, "HTTP/1.1 204 No Content\r\n\r\n")
			must.Do(t, r.ReadResponse(&head, h1.RequestInfo{}, &limits))
		}
	}
	r.SetPollInterval(time.Hour)
	if answers(20); counted.moved != 1 {
		t.Errorf("the deadline was moved %d times in one piece", counted.moved)
	}
	// A piece that is too long for the one that is wanted is not kept.
	r.SetPollInterval(time.Minute)
	if answers(2); counted.moved != 2 {
		t.Errorf("the deadline was moved %d times in two pieces", counted.moved)
	}
	r.SetPollInterval(0)
	if answers(1); counted.moved != 3 {
		t.Errorf("the deadline was moved %d times; the last wait has one of its own", counted.moved)
	}
}

// TestAwaitPieces: a wait goes on after each piece, and the pieces show how long
// it was.
func TestAwaitPieces(t *testing.T) {
	const piece, pieces = 20 * time.Millisecond, 3
	client, server := programs.Pipe(t)
	r := h1.NewReader(client, new(h1.BufferPool), h1.DefaultTimeouts())
	defer r.Close()
	limits := h1.DefaultLimits()
	var head h1.ResponseHead
	r.SetPollInterval(piece)
	began, waited := time.Now(), time.Duration(0)
	for range pieces {
		if err := r.ReadResponse(&head, h1.RequestInfo{}, &limits); !errors.Is(err, h1.ErrIdle) {
			t.Fatalf("a piece ends with %v", err)
		}
		if r.LastWait() < piece/8 {
			t.Errorf("a piece was %s", r.LastWait())
		}
		waited += r.LastWait()
	}
	if took := time.Since(began); waited > took || waited < piece*(pieces-1) {
		t.Errorf("the pieces were %s in %s", waited, took)
	}
	// The first bytes come in one piece, and the rest much later.
	r.SetPollInterval(time.Hour)
	write(t, server, "HTTP/1.1 204 No")
	go drip(server, " Content\r\n\r\n", 2*piece)
	if err := r.ReadResponse(&head, h1.RequestInfo{}, &limits); err != nil || head.Status != 204 {
		t.Errorf("status %d, %v", head.Status, err)
	}
}
