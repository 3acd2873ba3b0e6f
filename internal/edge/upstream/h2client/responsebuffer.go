package h2client

import (
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/h2flow"
)

// responseBuffer has what of a response came and was not read, as the text of
// HTTP/1.1. The connection's mu guards it, and the window bounds it.
type responseBuffer struct {
	h1.Backlog

	begun    bool  // some of the response has come
	headed   bool  // its final head has
	bodiless bool  // it has no body: the method was HEAD, or the status allows none
	left     int64 // bytes of a body with a known length that are still to come
	interims int   // interim responses

	window h2flow.ReceiveWindow
}

var crlf = []byte("\r\n")

// read copies what there is, with its framing.
func (in *responseBuffer) read(b []byte) int {
	n, data := in.Read(b)
	in.window.Consume(data)
	return n
}

// windowUpdate returns the increment to send to the endpoint now, 0 for none.
// It is at least half of a window, so that updates are rare.
func (in *responseBuffer) windowUpdate() int {
	if in.Over {
		return 0
	}
	return in.window.Update(streamWindow / 2)
}
