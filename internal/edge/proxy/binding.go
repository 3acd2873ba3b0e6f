package proxy

import (
	"errors"
	"sync/atomic"
	"time"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/route"
)

// binding is a rule compiled for requests. It holds handles of backends, which
// stay valid when endpoints change, so a change of endpoints binds no rule again.
//
// The fields that every request reads fill the first cache line, because with
// thousands of rules a binding is in no cache. Fields that most rules leave empty
// are in the second line (decision 0025); a test checks the layout.
type binding struct {
	// refused is the response of a rule that must not be served.
	refused *filter.LocalResponse
	// response is that of a rule without backends.
	response *filter.LocalResponse
	// sticky leads clients back to the backend that they got first; nil where
	// there is only one, or they may be sent anywhere.
	sticky *stickyRule
	// only is the backend where there is no other, nil where there is.
	only *upstream.Handle
	// counters count its requests, nil for a rule that is in no metric.
	counters *requestCounters
	// timeouts and chain are never nil, and shared by the rules that have none.
	timeouts *timeouts
	chain    *filter.Chain
	// unrecorded is the rule's.
	unrecorded route.Unrecorded

	rule     *route.Rule
	backends *weightedBackends
	// budget is what the rule has left for retries, nil without them. It points to nil
	// as long as none was sent.
	budget *atomic.Pointer[budget]
	// unresolved is the share of requests without a backend, nil for none.
	unresolved *unresolvedShare
	_          [32]byte // up to whole lines
}

// timeouts are those of a rule; 0 is the edge's default, for attempt and total none.
type timeouts struct{ connect, header, idle, attempt, total time.Duration }

// The values that rules without timeouts and without filters share.
var (
	noTimeouts timeouts
	noFilters  filter.Chain
)

// bind compiles a rule that is new or changed; [program.Compiler] calls it. A
// policy that cannot be compiled takes its own rule down and no other: the rule
// responds with 503, and never serves without one of its policies.
func (p *Proxy) bind(rule *route.Rule) (any, error) {
	b := &binding{rule: rule, unrecorded: rule.Unrecorded, timeouts: &noTimeouts, chain: &noFilters}
	if rule.Timeouts != (route.Timeouts{}) {
		b.timeouts = &timeouts{
			connect: time.Duration(rule.Timeouts.Connect), header: time.Duration(rule.Timeouts.Header),
			idle: time.Duration(rule.Timeouts.Idle), attempt: time.Duration(rule.Timeouts.Attempt), total: time.Duration(rule.Timeouts.Total),
		}
	}
	if !rule.Unrecorded.Metrics {
		b.counters = p.counters.forRule(rule.ID)
	}
	resolved, unresolved := splitUnresolved(rule.Backends)
	backends := newWeightedBackends(resolved, rule.Sticky != nil, p.cfg.Upstreams.Handle)
	chain, err := p.compile(rule)
	if err == nil {
		chain, err = backends.addHeaders(resolved, rule.Sticky != nil, chain)
	}
	if err != nil {
		p.cfg.Log.Warn("refused rule, responding with 503", "rule", rule.ID.String(), "error", err)
		if p.cfg.RuleRefused != nil {
			p.cfg.RuleRefused(rule.ID, err)
		}
		b.refused = &filter.LocalResponse{Status: 503, Reason: string(route.ReasonRefused)}
		return b, nil
	}
	if !chain.Empty() || chain.Guarded() {
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
		return nil, errors.New("the rule has neither backends nor a response")
	}
	if b.unresolved = unresolved; len(resolved) == 0 {
		b.response = unresolved.response
		return b, nil
	}
	b.backends = backends
	if len(b.backends.handles) == 1 && b.backends.headers == nil {
		b.only = b.backends.handles[0]
	}
	if rule.Sticky != nil {
		b.sticky = newStickyRule(rule, b.backends)
	}
	if hasRetry(rule.Policies) {
		b.budget = &atomic.Pointer[budget]{}
		b.budget.Store(p.budgets.byRule.Get(rule.ID))
	}
	return b, nil
}

// compile compiles the policies of a rule, and what follows them: its redirect, or the
// rewrite of host and path.
func (p *Proxy) compile(rule *route.Rule) (filter.Chain, error) {
	deps := filter.Deps{Counters: p.cfg.Counters, Backend: p.subrequestClient, Encoders: p.encoders, WAF: p.cfg.WAF}
	chain, err := deps.CompileRule(rule)
	switch r := rule.Response; {
	case err != nil:
	case r != nil && r.Redirect != nil:
		return chain.WithRedirect(r.Redirect, r.Status)
	case rule.Rewrite != nil:
		return chain.WithRewrite(rule.Rewrite)
	}
	return chain, err
}
