package shadow

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// queueLength bounds the copies that wait. With maxCopyBody it bounds their memory.
const queueLength = 1024

// SafeMethods are the methods that change nothing, by the definition of HTTP.
func SafeMethods() []string { return []string{http.MethodGet, http.MethodHead, http.MethodOptions} }

// Router returns how the new edge routes a request, without sending it.
type Router interface {
	Route(ctx context.Context, request *Request) (Route, error)
}

// HostFinder returns the host of a request by its backend and path, or nothing where
// several hosts are possible. The default format of ingress-nginx has the backend and no
// host.
type HostFinder interface {
	Host(ctx context.Context, request *Request) string
}

// Options are the settings of a comparison.
type Options struct {
	// Old and New are the addresses of the controllers, at most one for each scheme. A copy
	// whose scheme is not known goes to the first.
	Old, New []*Target
	// Router names the rule behind a difference, and the backend; it may be nil.
	Router Router
	// Hosts finds the host of a log line without one; it may be nil.
	Hosts HostFinder
	// RouteOnly sends nothing: the backend of the access log is compared with that of the
	// Router.
	RouteOnly bool
	// Methods are sent; others are skipped.
	Methods []string
	Compare *Comparer
	// Rate bounds the copies in a second, and retries count as copies. 0 is no bound.
	Rate float64
	// Concurrency bounds the copies that are compared at a time.
	Concurrency int
	// Retries is how often a difference has to be seen again. Requests with other than safe
	// methods are never sent again.
	Retries int
	// Max ends the comparison after this number of copies; 0 is no bound.
	Max int64
	// Progress, if it is set, is called at each interval.
	Progress func(Counts)
	Interval time.Duration
}

// session is a comparison that runs.
type session struct {
	Options
	limiter *rate.Limiter
	report  *collector
}

// Run compares the copies that source submits, until source returns and the queue is empty.
// When the context ends, copies that wait are dropped, and the report has what was compared
// until then.
func Run(ctx context.Context, options Options, source func(context.Context, *Intake) error) (*Report, error) {
	s := &session{Options: options, limiter: rate.NewLimiter(rate.Inf, 1), report: newCollector()}
	if options.Rate > 0 {
		s.limiter = rate.NewLimiter(rate.Limit(options.Rate), max(1, int(options.Rate/10)))
	}
	intake := &Intake{queue: make(chan *Request, queueLength), methods: options.Methods, limit: options.Max, hosts: options.Hosts, report: s.report, done: make(chan struct{})}
	var workers sync.WaitGroup
	for range max(1, options.Concurrency) {
		workers.Go(func() {
			for request := range intake.queue {
				s.process(ctx, request)
			}
		})
	}
	finished := make(chan struct{})
	var progress sync.WaitGroup
	if options.Progress != nil && options.Interval > 0 {
		progress.Go(func() { s.showProgress(finished) })
	}
	err := source(ctx, intake)
	intake.close()
	workers.Wait()
	close(finished)
	progress.Wait()
	report := s.report.finish()
	for _, target := range options.Old {
		report.Old = append(report.Old, target.String())
	}
	for _, target := range options.New {
		report.New = append(report.New, target.String())
	}
	return report, err
}

// showProgress reports the counts at each interval.
func (s *session) showProgress(finished <-chan struct{}) {
	tick := time.NewTicker(s.Interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.Progress(s.report.counts())
		case <-finished:
			return
		}
	}
}

// Intake takes the copies of a source.
type Intake struct {
	queue    chan *Request
	methods  []string
	hosts    HostFinder
	limit    int64
	accepted atomic.Int64
	report   *collector
	// done is closed when the limit is reached.
	done chan struct{}
	once sync.Once

	mu     sync.RWMutex // the queue is not closed while a handler sends to it
	closed bool
}

// Skip counts a copy that is not compared.
func (i *Intake) Skip(reason string) { i.report.skip(reason) }

// Done is closed when no more copies are wanted.
func (i *Intake) Done() <-chan struct{} { return i.done }

// full reports whether the limit is reached.
func (i *Intake) full() bool {
	select {
	case <-i.done:
		return true
	default:
		return false
	}
}

// admits checks a copy, and counts it if it is accepted.
func (i *Intake) admits(ctx context.Context, request *Request) bool {
	reason := ""
	if !slices.Contains(i.methods, request.Method) {
		reason = SkipMethod
	} else {
		request.clean()
		if request.Host == "" && i.hosts != nil && request.recordedBackend() != "" {
			request.Host = i.hosts.Host(ctx, request)
		}
		reason = request.unfit()
	}
	if reason != "" {
		i.Skip(reason)
		return false
	}
	return i.reserve()
}

// reserve takes one of the copies that the limit allows.
func (i *Intake) reserve() bool {
	if i.limit <= 0 {
		return true
	}
	number := i.accepted.Add(1)
	if number >= i.limit {
		i.once.Do(func() { close(i.done) })
	}
	return number <= i.limit
}

// Submit takes a copy, and waits until the queue has room.
func (i *Intake) Submit(ctx context.Context, request *Request) {
	if !i.admits(ctx, request) {
		return
	}
	select {
	case i.queue <- request:
	case <-ctx.Done():
		i.Skip(SkipStopped)
	}
}

// offer takes a copy if the queue has room: a mirror does not wait.
func (i *Intake) offer(ctx context.Context, request *Request) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if i.closed || !i.admits(ctx, request) {
		return
	}
	select {
	case i.queue <- request:
	default:
		i.Skip(SkipQueue)
	}
}

// close ends the intake.
func (i *Intake) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.closed = true
	close(i.queue)
}

// exchange is one copy, sent to both.
type exchange struct{ old, new *Response }

// process compares one copy.
func (s *session) process(ctx context.Context, request *Request) {
	if ctx.Err() != nil || s.limiter.Wait(ctx) != nil {
		s.report.skip(SkipStopped)
		return
	}
	if s.RouteOnly {
		s.processRoute(ctx, request)
		return
	}
	old, fresh := targetFor(s.Old, request.Scheme), targetFor(s.New, request.Scheme)
	if old == nil || fresh == nil {
		s.report.skip(SkipScheme)
		return
	}
	first := send(ctx, request, old, fresh)
	switch {
	case ctx.Err() != nil:
		// The end of the comparison is no difference.
		s.report.skip(SkipStopped)
		return
	case first.old.Failure == failureSpelling:
		s.report.skip(SkipSpelling)
		return
	}
	found := s.Compare.Compare(request, old.scheme, first.old, first.new)
	outcome := outcomes{}
	if len(found) > 0 {
		var ok bool
		if outcome, ok = s.confirm(ctx, request, first, found); !ok {
			s.report.skip(SkipStopped)
			return
		}
	}
	route := Route{}
	if s.Router != nil && (request.Recorded.Backend != "" || len(found) > 0) {
		var err error
		if route, err = s.Router.Route(ctx, request); err == nil && request.Recorded.Backend != "" {
			outcome.confirmed = append(outcome.confirmed, s.backendDifference(request, route)...)
		}
	}
	s.report.add(request, old.scheme, route, outcome, first.old.Failure != "" && first.new.Failure != "")
}

// targetFor returns the address for a scheme.
func targetFor(targets []*Target, scheme string) *Target {
	for _, target := range targets {
		if scheme == "" || target.scheme == scheme {
			return target
		}
	}
	return nil
}

// send sends a copy to both at the same time: content that changes with time is then the
// same.
func send(ctx context.Context, request *Request, old, fresh *Target) exchange {
	var out exchange
	var both sync.WaitGroup
	both.Go(func() { out.old = old.Send(ctx, request) })
	out.new = fresh.Send(ctx, request)
	both.Wait()
	return out
}

// outcomes are the differences of one copy by what the retries have shown.
type outcomes struct {
	// confirmed were seen in each retry; unstable are those in which the old controller
	// differs from itself; transient were not seen again.
	confirmed, unstable, transient []Difference
}

// confirm repeats a copy and sorts its differences. It reports false when the comparison
// ends first.
func (s *session) confirm(ctx context.Context, request *Request, first exchange, found []Difference) (outcomes, bool) {
	old, fresh := targetFor(s.Old, request.Scheme), targetFor(s.New, request.Scheme)
	seen, unstable := map[string]int{}, map[string]bool{}
	retries := s.Retries
	if !slices.Contains(SafeMethods(), request.Method) {
		retries = 0
	}
	for range retries {
		if s.limiter.Wait(ctx) != nil {
			return outcomes{}, false
		}
		again := send(ctx, request, old, fresh)
		if ctx.Err() != nil {
			return outcomes{}, false
		}
		for family := range families(s.Compare.Compare(request, old.scheme, again.old, again.new)) {
			seen[family]++
		}
		// An edge that is another each time, where the old controller is always the same,
		// is a difference.
		maps.Copy(unstable, families(s.Compare.Compare(request, old.scheme, first.old, again.old)))
	}
	var out outcomes
	for _, one := range found {
		switch {
		// With another status the other parts belong to another response.
		case unstable[one.family()] || unstable[CauseStatus]:
			out.unstable = append(out.unstable, one)
		case seen[one.family()] < retries && seen[CauseStatus] < retries:
			out.transient = append(out.transient, one)
		default:
			out.confirmed = append(out.confirmed, one)
		}
	}
	return out, true
}

// families returns the parts that differ.
func families(found []Difference) map[string]bool {
	out := map[string]bool{}
	for _, one := range found {
		out[one.family()] = true
	}
	return out
}
