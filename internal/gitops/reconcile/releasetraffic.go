package reconcile

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	slipway "slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/release"
)

// silence is the time since the last response of a canary.
type silence struct {
	since                      time.Time
	responded, started, stable int64
}

const (
	// silenceTimeout is how long a canary may be silent that gets requests.
	silenceTimeout = 5 * time.Second
	// silenceRequests is the least number of requests that it did not respond to, while the
	// stable revision has responded to as many. With fewer, chance may be the reason.
	silenceRequests = 20
)

// observe takes the counts at a time, and returns how many requests the canary has left
// without a response for too long.
func (s *silence) observe(at time.Time, traffic *ReleaseTraffic) int64 {
	canary, stable := &traffic.Canary, &traffic.Stable
	if s.since.IsZero() || s.responded != canary.Requests || s.started > canary.Started || s.stable > stable.Requests {
		*s = silence{at, canary.Requests, canary.Started, stable.Requests}
		return 0
	}
	waiting := canary.Started - s.started
	if at.Sub(s.since) < silenceTimeout || waiting < silenceRequests || stable.Requests-s.stable < silenceRequests {
		return 0
	}
	return waiting
}

// sessionState is the part of a releaseSession that is in the status of the Release. The
// counts of edges go on while an agent restarts, so that the comparison can too.
type sessionState struct {
	Trial string          `json:"trial,omitempty"`
	First ReleaseTraffic  `json:"first,omitzero"`
	Judge json.RawMessage `json:"judge,omitempty"`
	// Base are the requests of the canary at the begin of the share Share.
	Base  int64  `json:"base,omitempty"`
	Share string `json:"share,omitempty"`
}

// maxSessionState bounds what is written to the status.
const maxSessionState = 16 << 10

// encode is the state as text; empty if there is none that can be kept.
func (s *releaseSession) encode() string {
	kept := sessionState{Trial: s.trial, First: s.first, Base: s.base, Share: s.baseOf}
	if s.judge != nil {
		kept.Judge = s.judge.State()
	}
	text, err := json.Marshal(&kept)
	if err != nil || len(text) > maxSessionState {
		return ""
	}
	return string(text)
}

// restore takes the state of an agent that has ended. What cannot be read is left out, and
// begins again.
func (s *releaseSession) restore(text string, newJudge func(state []byte) ReleaseJudge) {
	var kept sessionState
	if s.trial != "" || text == "" || json.Unmarshal([]byte(text), &kept) != nil || kept.Base < 0 {
		return
	}
	s.trial, s.first, s.base, s.baseOf = kept.Trial, kept.First, kept.Base, kept.Share
	if len(kept.Judge) > 0 {
		s.judge = newJudge(kept.Judge)
	}
}

// begin starts a trial from the counts of now, unless it runs. A revision that is tried again
// has its hash again, but neither the evidence against it nor its requests count.
func (s *releaseSession) begin(trial string, traffic *ReleaseTraffic) {
	if s.trial != trial {
		s.trial, s.first = trial, *traffic
		s.judge, s.silence, s.base, s.baseOf = nil, silence{}, 0, ""
	}
}

// since is what a revision served since other counts of it.
func (r *Releases) since(now, first *RevisionTraffic) release.Counts {
	counts := release.Counts{Requests: max(now.Requests-first.Requests, 0), Errors: max(now.Errors-first.Errors, 0)}
	latency := slices.Clone(now.Latency)
	for i := range min(len(latency), len(first.Latency)) {
		latency[i] -= min(first.Latency[i], latency[i])
	}
	if r.Quantiles != nil {
		counts.P50, counts.P99 = r.Quantiles(latency)
	}
	return counts
}

// addTraffic adds the counts of the edges, and what the judge decides.
func (p *reconcileRun) addTraffic(in *release.Input, state *releaseState) {
	own, last := state.own, state.last
	if in.Stable == nil || in.Current == nil || last == nil || len(last.Spec.Revisions) != 2 || last.Spec.Revisions[1].Hash != in.Current.Hash {
		return
	}
	in.State = last.Status.State
	traffic, known := p.Releases.Traffic(state.desired.Key.Namespace, state.desired.Key.Name, in.Stable.Hash, in.Current.Hash)
	in.Known = known
	if !known {
		return
	}
	newJudge := func(state []byte) ReleaseJudge { return p.Releases.NewJudge(in.Policy.Guards, state) }
	if in.Policy != nil {
		own.restore(last.Status.State, newJudge)
	}
	own.begin(trialOf(last), &traffic)
	in.StableCount, in.Count = p.Releases.since(&traffic.Stable, &own.first.Stable), p.Releases.since(&traffic.Canary, &own.first.Canary)
	share := fmt.Sprintf("%s/%d/%d", in.Current.Hash, last.Status.Step, last.Spec.Revisions[1].Weight)
	if own.baseOf != share || own.base > in.Count.Requests {
		own.base, own.baseOf = in.Count.Requests, share
	}
	in.Served = in.Count.Requests - own.base
	defer func() { in.State = own.encode() }()
	if in.Policy == nil || in.Policy.Unjudged || last.Spec.Revisions[1].Weight == 0 {
		own.silence = silence{}
		return
	}
	if own.judge == nil {
		own.judge = newJudge(nil)
	}
	in.Unanswered = own.silence.observe(in.Now, &traffic)
	in.Judged = own.judge.Judge(in.Now, traffic)
}

// trialOf identifies the canary of a Release, and which of its releases it is.
func trialOf(last *slipway.Release) string {
	started := int64(0)
	if at := last.Status.StartedAt; at != nil {
		started = at.Unix()
	}
	return fmt.Sprintf("%s/%d", last.Spec.Revisions[1].Hash, started)
}
