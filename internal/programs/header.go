package programs

import "net/http"

// Header is a transport that sets a header of every request. The value is read
// for each, so that a client can use a token that it gets later; an empty one
// sets nothing.
type Header struct {
	Name  string
	Value *string
	Next  http.RoundTripper
}

// Bearer returns a transport that authenticates with a token.
func Bearer(token string, next http.RoundTripper) Header {
	if token != "" {
		token = "Bearer " + token
	}
	return Header{"Authorization", &token, next}
}

// RoundTrip sends a copy of the request with the header.
func (h Header) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	if *h.Value != "" {
		request.Header.Set(h.Name, *h.Value)
	}
	return h.Next.RoundTrip(request)
}
