package gitprovider

import (
	"crypto/sha256"
	"net/http"

	"slipway.dev/slipway/internal/cache"
)

// maxKept bounds the bytes of all responses that are kept.
const maxKept = 16 << 20

// Responses keeps lists of APIs with their ETags. A list that did not change is
// not sent again, and GitHub does not count the request. It is safe for
// concurrent use; nil keeps nothing.
type Responses struct {
	kept *cache.LRU[responseKey, keptResponse]
}

// responseKey is an address and who reads it: one credential does not get what
// another one may read.
type responseKey struct {
	address       string
	authorization [sha256.Size]byte
}

// keptResponse is a response with an ETag.
type keptResponse struct {
	header http.Header
	body   []byte
}

// NewResponses returns an empty Responses.
func NewResponses() *Responses {
	return &Responses{kept: cache.NewLRU[responseKey, keptResponse](cache.Limits{Bytes: maxKept})}
}

// keyOf is the key of a request.
func keyOf(request *http.Request) responseKey {
	return responseKey{request.URL.String(), sha256.Sum256([]byte(request.Header.Get("Authorization")))}
}

// condition makes a request conditional if there is a response to it, which it
// returns.
func (r *Responses) condition(request *http.Request) (keptResponse, bool) {
	if r == nil || request.Method != http.MethodGet {
		return keptResponse{}, false
	}
	known, found := r.kept.Get(keyOf(request))
	if found {
		request.Header.Set("If-None-Match", known.header.Get("ETag"))
	}
	return known, found
}

// keep keeps the complete response to a request, if it has an ETag. Only the
// fields that a list needs are kept of its header.
func (r *Responses) keep(request *http.Request, header http.Header, body []byte) {
	if r == nil || request.Method != http.MethodGet || header.Get("ETag") == "" {
		return
	}
	needed := http.Header{"Etag": header.Values("ETag"), "Link": header.Values("Link"), azureNext: header.Values(azureNext)}
	r.kept.Put(keyOf(request), keptResponse{needed, body}, int64(len(body)+len(request.URL.String())))
}
