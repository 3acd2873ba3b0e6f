package reconcile

import (
	"encoding/json"
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
			Stable: RevisionTraffic{Counts: release.Counts{Requests: stable}},
			Canary: RevisionTraffic{Started: started, Counts: release.Counts{Requests: responded}},
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
	before := &releaseSession{judge: &countingJudge{Judged: 7}, judged: "5d8b66", base: 40, baseOf: "5d8b66/2/25"}
	text := before.encode()
	after := &releaseSession{}
	after.restore(text, restored)
	if judge, _ := after.judge.(*countingJudge); judge == nil || judge.Judged != 7 || after.judged != "5d8b66" || after.base != 40 || after.baseOf != "5d8b66/2/25" {
		t.Errorf("restored %+v of %s", after, text)
	}
	// One that is in use is not replaced, and a text that is none changes nothing.
	other := &releaseSession{base: 3, baseOf: "x"}
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
