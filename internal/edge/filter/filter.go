// Package filter runs the policies of a rule: the steps that a request passes
// between the rule that matched it and the backend, and that the response passes
// on its way back.
//
// A filter is compiled once from a policy of the table and then shared by all
// requests of its rule, so it holds no state of a request. Counted state (rate
// limits, requests in flight, circuit breakers) is in [Counters], under the
// identity of the declaration, and so survives every change of the table. A policy
// that cannot be compiled fails as a whole: its rule responds with 503 and never
// serves without it.
//
// Filters see the request as it will be forwarded. They change it through the
// Exchange, which normalises again: a path that a filter made is checked by the
// same rules as a path that a client sent.
//
// Some policies are about the exchange itself: buffering, compression, retry,
// errorPages, mirror. Their filters only put their settings on the Exchange, and
// the proxy executes them. Filters that need another backend send sub-requests
// through [Deps]; the package has no connections. A policy whose dependency is
// missing is refused.
package filter

import (
	"crypto/x509"
	"errors"
	"net/netip"
	"slices"
	"time"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
)

// Filter is one step. Request runs before the request is forwarded, in the order
// of the policies. It returns nil to go on, or the local response that ends the
// request.
type Filter interface {
	Request(x *Exchange) *LocalResponse
}

// ResponseFilter is a Filter that also changes the response. Response runs for
// every response, local ones included, in the reverse order, for those filters
// whose Request ran.
type ResponseFilter interface {
	Filter
	Response(x *Exchange, status int)
}

// Finisher is a Filter that releases something when the exchange is over. Done
// runs exactly once for each Request that ran, however the exchange ended.
type Finisher interface {
	Filter
	Done(x *Exchange)
}

// SlowFilter is a Filter that waits for something, or computes for long. An event loop leaves
// its rules to goroutines.
type SlowFilter interface {
	Filter
	Slow()
}

// LocalResponse is a response of the edge itself. It belongs to its filter or to
// the Exchange and is shared between requests: read it, and do not keep it.
type LocalResponse struct {
	Status int
	// Edits are the headers of the response. Exchange.ResponseEdits come after
	// them and can change them.
	Edits []h1.Edit
	// Body is sent with ContentType. Without it the body is the short text of
	// the status, where the status has a body at all.
	Body        []byte
	ContentType string
	// Reason is a word for logs and metrics, such as RateLimited.
	Reason string
}

// Exchange is one request and its response, as filters see them. It is reused for
// the next request: nothing of it may be kept after the call.
type Exchange struct {
	// Head is the request as it came. Its URI is what the rule matched.
	Head *h1.Head
	// Client is the address that the client has, behind trusted proxies too.
	Client netip.Addr
	// Trusted reports that the connection is that of a trusted proxy.
	Trusted bool
	// TLS reports that the request came encrypted, ServerPort on which port.
	TLS         bool
	ServerPort  uint16
	Certificate ClientCertificate
	// Now is when the request came. Filters read no other clock, which makes them
	// deterministic in tests.
	Now time.Time
	// Path and Query are those that are forwarded. Change the path with SetPath.
	Path, Query []byte
	// HasQuery distinguishes an empty query from none.
	HasQuery bool
	// RequestEdits change the headers that the backend gets, ResponseEdits those
	// that the client gets. Append to them.
	RequestEdits, ResponseEdits []h1.Edit
	// MaxBody bounds the body of the request; 0 is no bound of the rule.
	MaxBody int64
	// User is the name that a filter authenticated, for logs.
	User string
	// Bufferer reads the request's body into memory; nil where there is none.
	Bufferer BodyBufferer

	// The settings of the policies about the exchange; 0 and nil are none.
	BufferRequest, BufferResponse int64
	Retry                         *Retry
	Compression                   *Compression
	// Pages are in the order of the policies: the last one that fits counts,
	// because it is the nearest to the backend.
	Pages   []*ErrorPages
	Mirrors []*Mirror
	// Inspection inspects the response; nil for a rule without a firewall.
	Inspection Inspection

	// Marks belong to the filters: each may keep one value between Request,
	// Response and Done, in the place that it was compiled with.
	Marks []int64

	// rewritten has what is a filter's, and not the client's.
	rewritten rewrittenParts
	memory    exchangeMemory
}

// rewrittenParts are the parts of a request that filters replace: whether the path is
// one, and the host, empty if it is the client's.
type rewrittenParts struct {
	path bool
	host string
	// restarts is how often the request was matched again.
	restarts int
	// locally reports that a filter ended the request, so that no backend was
	// involved: circuit breakers do not count it.
	locally bool
}

// BodyBufferer is the proxy's part of an exchange that filters may use during
// Request.
type BodyBufferer interface {
	// BufferBody reads the body of the request into memory, if it is not larger
	// than limit, and keeps it for the backend. Otherwise it returns the local
	// response that ends the request. A request without a body has a nil
	// BufferedBody.
	BufferBody(limit int64) (BufferedBody, *LocalResponse)
}

// BufferedBody is the body of a request in memory. It belongs to the proxy and is
// valid until the exchange is over.
type BufferedBody interface {
	Size() int64
	// Each calls yield for each piece of the body, until it fails.
	Each(yield func([]byte) error) error
}

// Inspection is a request with its response in a web application firewall. A filter
// puts it on the Exchange during Request, and ends it in Done.
type Inspection interface {
	// ResponseHead inspects the head of the backend's response. It returns the local
	// response that replaces it, or how many bytes of the body it inspects before the
	// client gets any; 0 passes the body on as it comes.
	ResponseHead(head *h1.ResponseHead) (local *LocalResponse, bytes int64)
	// ResponseBody inspects the start of the body, nil for a response without one.
	ResponseBody(start BufferedBody) *LocalResponse
}

// exchangeMemory is what an Exchange keeps from one request to the next, so that
// filters allocate nothing.
type exchangeMemory struct {
	// path holds Path once it was changed. The next change is made in spare,
	// because it often starts from a part of path.
	path, spare []byte
	// work is where a filter puts a text together, kept what has to last until
	// the exchange is over.
	work, kept []byte
	// edits are those of local, the response of a filter that depends on the request.
	edits []h1.Edit
	local LocalResponse
	// directives is the state of directives, nil before the first.
	directives *directiveState
}

func (m *exchangeMemory) reset() {
	m.path, m.spare, m.work, m.kept, m.edits = m.path[:0], m.spare[:0], m.work[:0], m.kept[:0], m.edits[:0]
	m.local = LocalResponse{}
}

// Begin resets the Exchange for a request, and keeps the memory. The struct is
// cleared in its place: a literal with its own fields would be copied once more.
func (x *Exchange) Begin(head *h1.Head, marks int) {
	requestEdits, responseEdits, pages, mirrors := x.RequestEdits[:0], x.ResponseEdits[:0], x.Pages[:0], x.Mirrors[:0]
	memory, kept := x.memory, x.Marks
	*x = Exchange{}
	x.Head, x.Path, x.Query, x.HasQuery = head, head.URI.Path, head.URI.Query, head.URI.HasQuery
	x.RequestEdits, x.ResponseEdits, x.Pages, x.Mirrors = requestEdits, responseEdits, pages, mirrors
	x.memory, x.Marks = memory, kept
	x.memory.reset()
	if marks == 0 {
		return
	}
	if cap(x.Marks) < marks {
		x.Marks = make([]int64, marks)
	}
	x.Marks = x.Marks[:marks]
	clear(x.Marks)
}

// Restart resets the Exchange for the filters of another rule, after [Rerouted]. The
// path, the query and the values of directives stay; the rest is that of a request
// that comes in.
func (x *Exchange) Restart(marks int) {
	path, query, hasQuery, rewritten, memory := x.Path, x.Query, x.HasQuery, x.rewritten, x.memory
	x.Begin(x.Head, marks)
	x.Path, x.Query, x.HasQuery, x.memory = path, query, hasQuery, memory
	x.rewritten = rewrittenParts{path: rewritten.path, restarts: rewritten.restarts + 1}
}

// maxGrowth bounds by how many bytes filters can make a path longer than the one
// of the client, whose length the reader has bounded.
const maxGrowth = 16 << 10

// errJoined is why a path is refused whose parts join to a segment that none of
// them has, such as .. from a prefix that ends in a dot.
var errJoined = errors.New("the parts of the rewritten path join to a dot segment or an escape")

// SetPath replaces the path that is forwarded, in its canonical spelling. It fails
// for a path that a client could not have sent either, and then changes nothing.
// Filters join parts that are canonical, so repeated slashes are all that is left
// to clean: a path that normalising would change in another way leads elsewhere
// than its filter meant, and is refused. The path may be a part of the present one.
func (x *Exchange) SetPath(path []byte) error {
	if len(path) > len(x.Head.URI.Path)+maxGrowth {
		return h1.ErrTargetTooLong
	}
	canonical, hazards, err := normalize.Path(x.memory.spare[:0], path)
	if err != nil {
		return err
	}
	// The rule allows those that the client's own path has.
	if err := hazards.Check(x.Head.URI.Hazards); err != nil {
		return err
	}
	if !sameButSlashes(canonical, path) {
		return errJoined
	}
	x.memory.spare = append(x.memory.spare[:0], canonical...)
	x.memory.path, x.memory.spare = x.memory.spare, x.memory.path
	x.Path, x.rewritten.path = x.memory.path, true
	return nil
}

// sameButSlashes reports whether canonical is path with one slash in place of
// each row of slashes.
func sameButSlashes(canonical, path []byte) bool {
	at := 0
	for i, c := range path {
		if c == '/' && i > 0 && path[i-1] == '/' {
			continue
		}
		if at == len(canonical) || canonical[at] != c {
			return false
		}
		at++
	}
	return at == len(canonical)
}

// Rewritten reports whether a filter has changed the path, so that AppendTarget is
// forwarded and not the target of the client.
func (x *Exchange) Rewritten() bool { return x.rewritten.path }

// Host returns the host that is forwarded instead of the client's; empty for none.
func (x *Exchange) Host() string { return x.rewritten.host }

// AppendTarget appends the target that is forwarded.
func (x *Exchange) AppendTarget(dst []byte) []byte {
	dst = append(dst, x.Path...)
	if x.HasQuery {
		dst = append(dst, '?')
		dst = append(dst, x.Query...)
	}
	return dst
}

// Chain is the compiled list of a rule's policies.
type Chain struct {
	filters []Filter
	// marks is how many places of Exchange.Marks the filters use.
	marks int
	// guarded are the names of request headers that filters remove or set.
	guarded []string
	// patterns match further names of them.
	patterns []*headerPattern
	slow     bool
}

// ClientCertificate is that of the client: Verified, and Presented also if it is not. They
// are nil when there is none.
type ClientCertificate struct{ Verified, Presented *x509.Certificate }

// Empty reports whether there is nothing to run.
func (c *Chain) Empty() bool { return len(c.filters) == 0 }

// Slow reports whether a filter waits for something, or computes for long.
func (c *Chain) Slow() bool { return c.slow }

// add appends a filter. The list may be shared with another chain.
func (c *Chain) add(f Filter) {
	c.filters = append(slices.Clip(c.filters), f)
	if _, slow := f.(SlowFilter); slow {
		c.slow = true
	}
}

// Marks is how many places of Exchange.Marks the chain needs.
func (c *Chain) Marks() int { return c.marks }

// Guarded reports whether there are request headers that filters remove or set.
func (c *Chain) Guarded() bool { return len(c.guarded)+len(c.patterns) > 0 }

// Guards reports whether a filter removes or sets the header of a name, in any
// spelling. A trailer of such a name must not reach the backend: many merge
// trailers into headers.
func (c *Chain) Guards(name []byte) bool {
	for _, guarded := range c.guarded {
		if normalize.SameField(name, normalize.Bytes(guarded)) {
			return true
		}
	}
	return matchesAny(c.patterns, name)
}

// Request runs the filters in order, until one returns a local response. It
// returns how many ran, for Response and Done, and that response.
func (c *Chain) Request(x *Exchange) (ran int, local *LocalResponse) {
	for i, f := range c.filters {
		if local := f.Request(x); local != nil {
			x.rewritten.locally = true
			return i + 1, local
		}
	}
	return len(c.filters), nil
}

// Response lets the filters that ran change the response, last first.
func (c *Chain) Response(x *Exchange, ran, status int) {
	for i := ran - 1; i >= 0; i-- {
		if f, ok := c.filters[i].(ResponseFilter); ok {
			f.Response(x, status)
		}
	}
}

// Done finishes the filters that ran, last first.
func (c *Chain) Done(x *Exchange, ran int) {
	for i := ran - 1; i >= 0; i-- {
		if f, ok := c.filters[i].(Finisher); ok {
			f.Done(x)
		}
	}
}
