package h1

import (
	"errors"
	"io"
	"time"
)

// Transfer passes one body on, as it comes: what one read brings goes out with
// one write, and nothing is read before that. A reader that is slow so slows
// down its writer, and no more than a buffer is held in between.
type Transfer struct {
	// From is where the body comes from; its head has been read.
	From *Reader
	// To is where it goes.
	To *Writer
	// Head is sent in front, in the same write as the first of the body. A short
	// start of the body is appended to it, so its memory has to be the caller's; the
	// caller can use it again as it is after Run.
	Head []byte
	// Body is the body's framing, freshly Reset. Without decode, its framing
	// is passed on with it.
	Body *Body
	// Encode sends the data in chunks. The Body must be decoding then, or come
	// without chunks.
	Encode bool
	// Most bounds the data passed on; 0 is no bound. A body that has more ends
	// with [ErrBodyTooLarge].
	Most int64
	// PauseAfter ends Run with [ErrPaused] once so much data was passed on, unless that
	// is all; 0 does not. Another Transfer with the same Body goes on from there.
	PauseAfter int64

	headSent bool // Head was queued
}

// joinedBytes is the longest start of a body that is appended to the head. Copying it
// takes less than lending a buffer in which both are joined, or than a vector of two.
const joinedBytes = 1 << 10

// ErrPaused is returned for a body with more data than Transfer.PauseAfter.
var ErrPaused = errors.New("the transfer is paused")

// ErrBodyTooLarge is returned for a body larger than Transfer.Most.
var ErrBodyTooLarge = errors.New("the body is larger than allowed")

// lastChunk ends a chunked body without trailers.
var lastChunk = []byte("0\r\n\r\n")

// Run passes the body on to its end. A [WriteError] comes from the side that
// is written to, any other error from the side that is read. After an error
// neither connection can be used any further.
func (t *Transfer) Run() error {
	var waited time.Duration
	for {
		used, err := t.next()
		if err != nil {
			return err
		}
		if t.Body.Done() {
			return t.finish()
		}
		if t.PauseAfter > 0 && t.Body.Payload() >= t.PauseAfter {
			if err := t.To.Flush(); err != nil {
				return err
			}
			return ErrPaused
		}
		if used > 0 {
			continue
		}
		if err := t.To.Flush(); err != nil {
			return err
		}
		if pipe := t.pipe(); pipe != nil {
			err = t.splice(pipe)
		} else {
			err = t.fill(&waited)
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = t.Body.End()
		}
		if err != nil {
			return err
		}
	}
}

// next queues the next part of what has been read.
func (t *Transfer) next() (used int, err error) {
	pass, used, err := t.Body.Next(t.From.Unread())
	if err != nil {
		return 0, err
	}
	t.From.r += used
	if t.Most > 0 && t.Body.Payload() > t.Most {
		return 0, ErrBodyTooLarge
	}
	if !t.headSent {
		t.headSent = true
		if len(pass) <= joinedBytes && len(t.Head) > 0 && !t.Encode {
			t.Head = append(t.Head, pass...)
			pass = nil
		}
		if err := t.To.Queue(t.Head); err != nil {
			return 0, err
		}
	}
	if t.Encode {
		return used, t.To.QueueChunk(pass)
	}
	return used, t.To.Queue(pass)
}

func (t *Transfer) finish() error {
	if t.Encode {
		last := lastChunk
		if t.Body.Trailers.Len() > 0 {
			last = AppendLastChunk(nil, &t.Body.Trailers)
		}
		if err := t.To.Queue(last); err != nil {
			return err
		}
	}
	return t.To.Flush()
}

// fill reads more, and judges how fast it comes. Only the time spent waiting
// for the sender counts against it.
func (t *Transfer) fill(waited *time.Duration) error {
	times := &t.From.times
	if times.Rate <= 0 {
		return t.From.fill(t.Body.expected())
	}
	began := time.Now()
	err := t.From.fill(t.Body.expected())
	*waited += time.Since(began)
	if err == nil && *waited > times.RateAfter && float64(t.Body.Payload()) < waited.Seconds()*float64(times.Rate) {
		return ErrTooSlow
	}
	return err
}
