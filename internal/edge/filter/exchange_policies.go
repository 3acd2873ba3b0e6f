package filter

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/route"
)

// buffering has bodies read in full before they are passed on. Of several limits
// the smallest counts.
type buffering struct{ request, response int64 }

// Request implements [Filter].
func (f *buffering) Request(x *Exchange) *LocalResponse {
	x.BufferRequest = least(x.BufferRequest, f.request)
	x.BufferResponse = least(x.BufferResponse, f.response)
	return nil
}

// least is the smaller of two limits, of which 0 is none.
func least(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Retry is the compiled policy of when a request is sent again.
type Retry struct {
	// Attempts is how often a request is sent at most.
	Attempts int
	// Connect, Reset and Timeout are the failures it is sent again after, and
	// statuses those of responses.
	Connect, Reset, Timeout bool
	statuses                []int
	// Unsafe allows methods that are not idempotent.
	Unsafe bool
	// AttemptTimeout bounds an attempt until the head of its response; 0 does not.
	AttemptTimeout time.Duration
	// Backoff is the wait before the second attempt; it doubles for each further
	// one.
	Backoff time.Duration
}

func newRetry(a *route.Retry) (*Retry, error) {
	f := &Retry{
		Attempts: a.Attempts, Unsafe: a.UnsafeMethods,
		AttemptTimeout: time.Duration(a.AttemptTimeout), Backoff: time.Duration(a.Backoff),
		Connect: len(a.On)+len(a.Statuses) == 0, statuses: slices.Clone(a.Statuses),
	}
	for i, on := range a.On {
		switch on {
		case route.RetryConnect:
			f.Connect = true
		case route.RetryReset:
			f.Reset = true
		case route.RetryTimeout:
			f.Timeout = true
		case route.RetryUnavailable:
			f.statuses = append(f.statuses, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout)
		default:
			return nil, invalid("on["+strconv.Itoa(i)+"]", "%q is none of connect, reset, timeout, unavailable", on)
		}
	}
	return f, nil
}

// Request implements [Filter].
func (f *Retry) Request(x *Exchange) *LocalResponse {
	x.Retry = f
	return nil
}

// AfterStatus reports whether a request is sent again after a response.
func (f *Retry) AfterStatus(status int) bool { return slices.Contains(f.statuses, status) }

// ErrorPages is the compiled policy of pages that replace the bodies of errors.
type ErrorPages struct {
	Backend SubrequestClient
	// Fields are sent along.
	Fields   []Field
	path     string
	statuses []route.StatusRange
}

// statusPlace stands for the status in a path.
const statusPlace = "{status}"

func newErrorPages(a *route.ErrorPages, c *compiler) (*ErrorPages, error) {
	backend, err := c.backend(a.Backend)
	if err != nil {
		return nil, err
	}
	// The path is a sub-request's target, so it has to be canonical for each status.
	for _, status := range a.Statuses {
		path := []byte(strings.ReplaceAll(a.Path, statusPlace, strconv.Itoa(status.From)))
		canonical, hazards, err := normalize.Path(nil, path)
		if err != nil || hazards != 0 || string(canonical) != string(path) {
			return nil, invalid("path", "%q is not a canonical path; write one such as /{status}.html", a.Path)
		}
	}
	pages := &ErrorPages{Backend: backend, path: a.Path, statuses: slices.Clone(a.Statuses)}
	for _, header := range a.Headers {
		pages.Fields = append(pages.Fields, Field{Name: header.Name, Value: header.Value})
	}
	return pages, nil
}

// Request implements [Filter].
func (f *ErrorPages) Request(x *Exchange) *LocalResponse {
	x.Pages = append(x.Pages, f)
	return nil
}

// Fits reports whether there is a page for a status.
func (f *ErrorPages) Fits(status int) bool {
	return slices.ContainsFunc(f.statuses, func(r route.StatusRange) bool { return r.From <= status && status <= r.To })
}

// Target returns the target of the sub-request for the page of a status.
func (f *ErrorPages) Target(status int) string {
	return strings.ReplaceAll(f.path, statusPlace, strconv.Itoa(status))
}

// Mirror is the compiled policy of a backend that gets copies of requests.
type Mirror struct {
	Backend SubrequestClient
	// MaxBody bounds the body of a request that is copied.
	MaxBody int64
	// share of each so many requests are copied.
	share, of uint64
	count     atomic.Uint64
}

func newMirror(a *route.Mirror, c *compiler) (*Mirror, error) {
	backend, err := c.backend(a.Backend)
	if err != nil {
		return nil, err
	}
	return &Mirror{Backend: backend, MaxBody: a.MaxBodyBytes, share: uint64(a.Percent), of: uint64(cmp.Or(a.Of, 100))}, nil
}

// Request implements [Filter].
func (f *Mirror) Request(x *Exchange) *LocalResponse {
	// Each hundred requests has its share of copies, evenly spread. The remainder
	// keeps the product from overflowing.
	n := (f.count.Add(1) - 1) % f.of
	if (n+1)*f.share/f.of != n*f.share/f.of {
		x.Mirrors = append(x.Mirrors, f)
	}
	return nil
}
