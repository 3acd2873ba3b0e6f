package reconcile

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"slipway.dev/slipway/internal/release"
)

// A canary that gets requests and responds to none is noticed, at any time of a release.
// One without requests, and one that is slow together with the stable revision, is not.
func TestSilence(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	counts := func(started, responded, stable int64) *ReleaseTraffic {
		return &ReleaseTraffic{
			Stable: RevisionTraffic{Requests: stable},
			Canary: RevisionTraffic{Started: started, Requests: responded},
		}
	}
	for name, c := range map[string]struct {
		at   func(second int64) *ReleaseTraffic
		want bool
	}{
		"silent":          {func(s int64) *ReleaseTraffic { return counts(20*s, 0, 200*s) }, true},
		"silent later":    {func(s int64) *ReleaseTraffic { return counts(20*s, 20*min(s, 4), 200*s) }, true},
		"responds":        {func(s int64) *ReleaseTraffic { return counts(20*s+50, s, 200*s) }, false},
		"no requests":     {func(s int64) *ReleaseTraffic { return counts(7, 7, 200*s) }, false},
		"few requests":    {func(s int64) *ReleaseTraffic { return counts(s, 0, 200*s) }, false},
		"both are silent": {func(s int64) *ReleaseTraffic { return counts(20*s, 0, 5) }, false},
	} {
		var own silence
		got := false
		for second := range int64(12) {
			got = got || own.observe(now.Add(time.Duration(second)*time.Second), c.at(second)) > 0
		}
		if got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// countingJudge counts what it has judged, and continues with the count of another.
type countingJudge struct{ Judged int }

func (j *countingJudge) Judge(time.Time, ReleaseTraffic) release.Judgement {
	return release.Judgement{}
}

func (j *countingJudge) State() []byte {
	text, _ := json.Marshal(j)
	return text
}

// What an agent knows about a release is in its status, and the next one continues with it.
func TestSessionState(t *testing.T) {
	restored := func(state []byte) ReleaseJudge {
		judge := &countingJudge{}
		_ = json.Unmarshal(state, judge)
		return judge
	}
	served := ReleaseTraffic{Stable: RevisionTraffic{Requests: 900, Errors: 1, Latency: []uint64{899}}}
	before := &releaseSession{judge: &countingJudge{Judged: 7}, trial: "5d8b66/1", first: served, base: 40, baseOf: "5d8b66/2/25"}
	text := before.encode()
	after := &releaseSession{}
	after.restore(text, restored)
	if judge, _ := after.judge.(*countingJudge); judge == nil || judge.Judged != 7 || after.trial != "5d8b66/1" || !reflect.DeepEqual(after.first, served) || after.base != 40 || after.baseOf != "5d8b66/2/25" {
		t.Errorf("restored %+v of %s", after, text)
	}
	// One that is in use is not replaced, and a text that is none changes nothing.
	other := &releaseSession{trial: "x", base: 3, baseOf: "x"}
	other.restore(text, restored)
	if other.judge != nil || other.base != 3 {
		t.Errorf("replaced by %+v", other)
	}
	for _, wrong := range []string{"", "{", `{"base": -1, "share": "x"}`} {
		empty := &releaseSession{}
		if empty.restore(wrong, restored); empty.judge != nil || empty.baseOf != "" {
			t.Errorf("%q is %+v", wrong, empty)
		}
	}
}

// A revision that is tried again has the counts and the evidence of nothing.
func TestTrial(t *testing.T) {
	releases := &Releases{Quantiles: func(latency []uint64) (p50, p99 time.Duration) {
		return time.Duration(latency[0]), time.Duration(latency[1])
	}}
	own := &releaseSession{}
	own.begin("5d8b66/1", &ReleaseTraffic{})
	own.judge, own.base, own.baseOf = &countingJudge{}, 5, "5d8b66/1/20"
	own.begin("5d8b66/1", &ReleaseTraffic{Canary: RevisionTraffic{Requests: 50}})
	if own.judge == nil || own.base != 5 || own.first.Canary.Requests != 0 {
		t.Fatalf("a trial that runs began again: %+v", own)
	}
	before := ReleaseTraffic{Canary: RevisionTraffic{Requests: 80, Errors: 4, Latency: []uint64{70, 6}}}
	own.begin("5d8b66/9", &before)
	if own.judge != nil || own.base != 0 || own.baseOf != "" {
		t.Errorf("the next trial continues with %+v", own)
	}
	now := RevisionTraffic{Requests: 90, Errors: 4, Latency: []uint64{75, 11}}
	if got, want := releases.since(&now, &own.first.Canary), (release.Counts{Requests: 10, P50: 5, P99: 5}); got != want {
		t.Errorf("it served %+v, and not %+v", got, want)
	}
	// An edge that restarts begins at 0 again, and the sum of all does not: less than before is nothing.
	if got := releases.since(&RevisionTraffic{Latency: []uint64{1, 0}}, &own.first.Canary); got != (release.Counts{}) {
		t.Errorf("it served %+v", got)
	}
}
