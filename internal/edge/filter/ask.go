package filter

import (
	"time"

	"slipway.dev/slipway/internal/edge/h1"
)

// Asker asks one backend something beside the request. The proxy has the
// connections, so it is the proxy that implements it.
type Asker interface {
	// Ask waits for the answer. Whoever gets one closes it.
	Ask(*Question) (*Reply, error)
}

// Question is a request of the edge's own.
type Question struct {
	Method, Target string
	// Host is the Host header; empty sends the backend's, and where it has none
	// OtherHost, and where that is empty the address of its endpoint.
	Host, OtherHost string
	// Fields are the headers. Those about connection and length are not for the
	// caller to say.
	Fields []Field
	// Body is sent with the question; nil sends none.
	Body Payload
	// MaxReply bounds the body of the answer that is kept. An answer with a
	// larger one comes without it, and says so.
	MaxReply int64
	// Timeout bounds all of it.
	Timeout time.Duration
}

// Field is a header of a Question.
type Field struct{ Name, Value string }

// Reply is the answer to a Question. It holds until Close.
type Reply struct {
	Head *h1.ResponseHead
	Body []byte
	// Cut says that the body was larger than MaxReply, and is left out.
	Cut bool
	// Done gives back what the answer is made of.
	Done func()
}

// Close gives back what the answer is made of.
func (r *Reply) Close() {
	if r.Done != nil {
		r.Done()
	}
}
