package filter

import (
	"time"

	"slipway.dev/slipway/internal/edge/h1"
)

// SubrequestClient sends sub-requests to one backend. The proxy implements it,
// because it has the connections.
type SubrequestClient interface {
	// Do waits for the response. The caller closes it.
	Do(*Subrequest) (*Subresponse, error)
}

// Subrequest is a request of the edge's own, beside the one of a client.
type Subrequest struct {
	Method, Target string
	// Host is the Host header; empty sends the backend's, and where it has none
	// OtherHost, and where that is empty the address of its endpoint.
	Host, FallbackHost string
	// Fields are the headers, without those about connection and length.
	Fields []Field
	// Body is sent along; nil sends none.
	Body BufferedBody
	// MaxResponse bounds the body of the response. A response with a larger one
	// comes without it, and is Truncated.
	MaxResponse int64
	// Timeout bounds the whole sub-request.
	Timeout time.Duration
}

// Field is a header of a Subrequest.
type Field struct{ Name, Value string }

// Subresponse is the response to a Subrequest. It is valid until Close.
type Subresponse struct {
	Head *h1.ResponseHead
	Body []byte
	// Truncated reports that the body was larger than MaxResponse, and is left out.
	Truncated bool
	// Release gives back the connection and the memory of the response.
	Release func()
}

// Close gives back the connection and the memory of the response.
func (r *Subresponse) Close() {
	if r.Release != nil {
		r.Release()
	}
}
