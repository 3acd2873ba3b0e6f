package filter

import (
	"time"

	"slipway.dev/slipway/internal/edge/h1"
)

// SubrequestClient asks one backend something beside the request. The proxy has the
// connections, so it is the proxy that implements it.
type SubrequestClient interface {
	// Do waits for the answer. Whoever gets one closes it.
	Do(*Subrequest) (*Subresponse, error)
}

// Subrequest is a request of the edge's own.
type Subrequest struct {
	Method, Target string
	// Host is the Host header; empty sends the backend's, and where it has none
	// OtherHost, and where that is empty the address of its endpoint.
	Host, FallbackHost string
	// Fields are the headers. Those about connection and length are not for the
	// caller to say.
	Fields []Field
	// Body is sent with the question; nil sends none.
	Body BufferedBody
	// MaxResponse bounds the body of the answer that is kept. An answer with a
	// larger one comes without it, and says so.
	MaxResponse int64
	// Timeout bounds all of it.
	Timeout time.Duration
}

// Field is a header of a Question.
type Field struct{ Name, Value string }

// Subresponse is the answer to a Question. It holds until Close.
type Subresponse struct {
	Head *h1.ResponseHead
	Body []byte
	// Truncated says that the body was larger than MaxReply, and is left out.
	Truncated bool
	// Release gives back what the answer is made of.
	Release func()
}

// Close gives back what the answer is made of.
func (r *Subresponse) Close() {
	if r.Release != nil {
		r.Release()
	}
}
