package proxy

import (
	"errors"
	"sync/atomic"
	"time"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/route"
)

// binding is a rule in the form in which it is run. It holds handles, which
// stay good when endpoints change, so a change of endpoints binds nothing anew.
// What every request reads is its first line of a cache, because with thousands of
// rules it is in none: what most rules do not have is somewhere else.
type binding struct {
	// refused is the answer of a rule that must not be served.
	refused *filter.LocalResponse
	// response is the answer of a rule without backends.
	response *filter.LocalResponse
	// sticky leads clients back to the backend that they got first; nil where
	// there is only one, or they may be sent anywhere.
	sticky *stickyRule
	// only is the backend where there is no other, nil where there is.
	only *upstream.Handle
	// tally counts its requests, nil where the rule wants to be in no metric.
	tally *requestCounters
	// times and chain are never nil, and shared by the rules that have none.
	times *times
	chain *filter.Chain
	// unrecorded is the rule's.
	unrecorded route.Unrecorded

	rule    *route.Rule
	targets *targets
	// budget is what the rule has left for retries, nil without them.
	budget *budget
	_      [40]byte // up to whole lines
}

// times are the rule's bounds; 0 is the edge's default, for total none.
type times struct{ connect, header, idle, total time.Duration }

// What rules without bounds and without filters share.
var (
	noTimes   times
	noFilters filter.Chain
)

// bind is called for each rule that is new or changed. A policy that cannot be
// compiled takes its own rule down and no other.
func (p *Proxy) bind(rule *route.Rule) (any, error) {
	b := &binding{rule: rule, unrecorded: rule.Unrecorded, times: &noTimes, chain: &noFilters}
	if rule.Timeouts != (route.Timeouts{}) {
		b.times = &times{
			connect: time.Duration(rule.Timeouts.Connect), header: time.Duration(rule.Timeouts.Header),
			idle: time.Duration(rule.Timeouts.Idle), total: time.Duration(rule.Timeouts.Total),
		}
	}
	if !rule.Unrecorded.Metrics {
		b.tally = p.counters.forRule(rule.ID)
	}
	deps := filter.Deps{Counters: p.cfg.Counters, Backend: p.server, Encoders: p.encoders}
	chain, err := deps.Compile(rule.Policies)
	if err != nil {
		p.cfg.Log.Warn("a rule is refused and answers 503", "rule", rule.ID.String(), "error", err)
		if p.cfg.RuleRefused != nil {
			p.cfg.RuleRefused(rule.ID, err)
		}
		b.refused = &filter.LocalResponse{Status: 503, Reason: string(route.ReasonRefused)}
		return b, nil
	}
	if !chain.Empty() {
		kept := chain
		b.chain = &kept
	}
	if r := rule.Response; r != nil {
		b.response = &filter.LocalResponse{Status: r.Status, Reason: string(r.Reason)}
		if r.Body != "" {
			b.response.Body, b.response.ContentType = []byte(r.Body), "text/plain; charset=utf-8"
		}
		return b, nil
	}
	if len(rule.Backends) == 0 {
		return nil, errors.New("it has neither backends nor a response")
	}
	b.targets = newTargets(rule.Backends, p.cfg.Upstreams.Handle)
	if len(b.targets.handles) == 1 {
		b.only = b.targets.handles[0]
	}
	if rule.Sticky != nil && len(b.targets.handles) > 1 {
		b.sticky = newStickyRule(rule, b.targets)
	}
	if hasRetry(rule.Policies) {
		b.budget = p.budgets.forRule(rule.ID)
	}
	return b, nil
}

// targets spreads requests over several backends by weight.
type targets struct {
	handles []*upstream.Handle
	// ends are the sums of the weights up to each handle.
	ends  []uint64
	step  uint64
	count atomic.Uint64
}

func newTargets(refs []route.BackendRef, handle func(route.BackendID) *upstream.Handle) *targets {
	t := &targets{}
	even := true
	for _, ref := range refs {
		even = even && ref.Weight == 0
	}
	var total uint64
	for _, ref := range refs {
		weight := uint64(ref.Weight)
		if even {
			weight = 1
		}
		if weight == 0 {
			continue
		}
		total += weight
		t.handles = append(t.handles, handle(ref.Backend))
		t.ends = append(t.ends, total)
	}
	t.step = stepFor(total)
	return t
}

// stepFor is a number near the golden section of total that has no common
// divisor with it. Counting in such steps visits every place once a round and
// spreads neighbours wide apart, so that 90:10 is never ninety and then ten.
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

// next is the backend of the next request.
func (t *targets) next() *upstream.Handle { return t.handles[t.turn()] }

// turn is the number of the handle whose turn it is.
func (t *targets) turn() int {
	if len(t.handles) == 1 {
		return 0
	}
	total := t.ends[len(t.ends)-1]
	at := t.count.Add(1) % total * t.step % total
	for i, end := range t.ends {
		if at < end {
			return i
		}
	}
	return 0
}
