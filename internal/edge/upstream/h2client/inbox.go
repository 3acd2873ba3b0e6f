package h2client

import (
	"slipway.dev/slipway/internal/edge/h1"
)

// inbox is what has come of a response and was not read yet. Heads are text.
type inbox struct {
	h1.Backlog

	begun    bool  // some of the response has come
	headed   bool  // its final head has
	bodiless bool  // it has none: the method was HEAD, or the status says so
	left     int64 // of a body with a known length
	interims int

	room int64 // what the endpoint may still send
	owed int64 // what was read and not given back to it
}

var crlf = []byte("\r\n")

// read copies what there is, with its framing.
func (in *inbox) read(b []byte) int {
	n, data := in.Read(b)
	in.owed += int64(data)
	return n
}

// credit is what to give back to the endpoint now: at least half of a window,
// so that updates are rare.
func (in *inbox) credit() uint32 {
	if in.owed < streamWindow/2 || in.Over {
		return 0
	}
	credit := in.owed
	in.room += credit
	in.owed = 0
	return uint32(credit)
}
