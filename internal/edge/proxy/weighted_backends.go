package proxy

import (
	"slices"
	"sync/atomic"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/route"
)

// weightedBackends spreads requests over the backends of a rule by weight.
type weightedBackends struct {
	handles []*upstream.Handle
	// headers are the edits for each handle; nil where no backend has any.
	headers []*filter.BackendHeaders
	// ends are the running sums of the weights, one for each handle.
	ends []uint64
	// fallback is the index of the handle that stands in for others, which has no share;
	// -1 for none.
	fallback int
	step     uint64
	count    atomic.Uint64
}

// newWeightedBackends spreads requests over backends. If all have the weight 0, they share
// evenly; else those of weight 0 get none. They are skipped, unless clients of a sticky
// cookie can return to them.
func newWeightedBackends(refs []route.BackendRef, sticky bool, handle func(route.BackendID) *upstream.Handle) *weightedBackends {
	t := &weightedBackends{fallback: -1}
	var total uint64
	weighted := slices.ContainsFunc(refs, hasShare)
	for i, ref := range reachable(refs, sticky) {
		switch {
		case ref.Fallback:
			t.fallback = i
		case !weighted || hasShare(ref):
			total += uint64(max(ref.Weight, 1))
		}
		t.handles = append(t.handles, handle(ref.Backend))
		t.ends = append(t.ends, total)
	}
	t.step = stepFor(total)
	return t
}

// hasShare reports whether a backend gets requests by its weight.
func hasShare(ref route.BackendRef) bool { return ref.Weight > 0 && !ref.Fallback }

// reachable returns the backends that can get requests: those with a weight, or all if
// none has one, and the fallback; with a sticky cookie all.
func reachable(refs []route.BackendRef, sticky bool) []route.BackendRef {
	if sticky || !slices.ContainsFunc(refs, hasShare) {
		return refs
	}
	return slices.DeleteFunc(slices.Clone(refs), func(ref route.BackendRef) bool { return ref.Weight == 0 && !ref.Fallback })
}

// addHeaders compiles the changes of headers that backends have, and returns the chain
// with the names that they guard.
func (t *weightedBackends) addHeaders(refs []route.BackendRef, sticky bool, chain filter.Chain) (filter.Chain, error) {
	changes := func(ref route.BackendRef) bool { return ref.RequestHeaders != nil || ref.ResponseHeaders != nil }
	if !slices.ContainsFunc(refs, changes) {
		return chain, nil
	}
	for _, ref := range reachable(refs, sticky) {
		var headers *filter.BackendHeaders
		var err error
		if chain, headers, err = chain.WithBackendHeaders(&ref); err != nil {
			return chain, err
		}
		t.headers = append(t.headers, headers)
	}
	return chain, nil
}

// stepFor returns a number near the golden section of total that has no common
// divisor with it. Counting in such steps reaches every place once in total steps
// and spreads neighbours wide apart, so that 90:10 is never ninety and then ten.
func stepFor(total uint64) uint64 {
	for step := total * 618 / 1000; step > 1; step-- {
		if gcd(step, total) == 1 {
			return step
		}
	}
	return 1
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// next returns the backend of the next connection.
func (t *weightedBackends) next() *upstream.Handle { return t.handles[t.nextIndex()] }

// nextIndex returns the index of the next request's handle: the one whose turn it is, or the
// fallback while that has no healthy endpoint.
func (t *weightedBackends) nextIndex() int {
	if len(t.handles) == 1 {
		return 0
	}
	at := t.turn()
	if t.fallback >= 0 && t.handles[at] != nil && !t.handles[at].Healthy() && t.handles[t.fallback].Healthy() {
		return t.fallback
	}
	return at
}

// turn returns the index of the handle whose turn it is. One atomic counter is all the
// state, so requests on many processors need no lock.
func (t *weightedBackends) turn() int {
	total := t.ends[len(t.ends)-1]
	at := t.count.Add(1) % total * t.step % total
	for i, end := range t.ends {
		if at < end {
			return i
		}
	}
	return 0
}
