package judge

import (
	"testing"
	"time"
)

// restarted is a canary with a twentieth of errors that is judged by a new judge every few
// seconds. It returns the second of the failure, 0 for none.
func restarted(t *testing.T, every int, restores bool) int {
	t.Helper()
	begin := time.Unix(1_800_000_000, 0)
	j := New(Guards{}, bounds)
	var stable, canary Sample
	for second := range 60 {
		stable.Add(Sample{Requests: 180, Latency: Histogram{20: 180}})
		canary.Add(Sample{Requests: 20, Errors: 1, Latency: Histogram{20: 19}})
		if decided := j.Observe(begin.Add(time.Duration(second)*time.Second), stable, canary); decided.Outcome == Fail {
			return second
		}
		if second%every != every-1 {
			continue
		}
		text, err := j.State()
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > 2000 {
			t.Errorf("the state has %d characters", len(text))
		}
		before := j.decision
		if j = New(Guards{}, bounds); !restores {
			continue
		}
		if err := j.Restore(text); err != nil {
			t.Fatal(err)
		}
		if after := j.decision; after.P != before.P || after.Reason != before.Reason || after.Canary != before.Canary || after.Stable != before.Stable {
			t.Errorf("after %d s: %+v, was %+v", second, after, before)
		}
	}
	return 0
}

// TestRestored: a judge that continues knows what the one before did.
func TestRestored(t *testing.T) {
	t.Parallel()
	if at := restarted(t, 100, false); at == 0 || at > 6 {
		t.Errorf("without a restart it fails after %d s", at)
	}
	if at := restarted(t, 3, false); at != 0 {
		t.Errorf("judges that begin from nothing fail it after %d s", at)
	}
	if at := restarted(t, 3, true); at == 0 || at > 9 {
		t.Errorf("with a restart every 3 s it fails after %d s", at)
	}
}

// FuzzRestore: a state from outside never makes a judge that panics.
func FuzzRestore(f *testing.F) {
	j := New(Guards{}, bounds)
	var stable, canary Sample
	for second := range 5 {
		stable.Add(Sample{Requests: 100, Latency: Histogram{3: 100}})
		canary.Add(Sample{Requests: 10, Errors: 1, Latency: Histogram{4: 9}})
		j.Observe(time.Unix(int64(second), 0), stable, canary)
	}
	text, err := j.State()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"slices":1,"errors":[1e300]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		j := New(Guards{}, bounds)
		if j.Restore(text) != nil {
			return
		}
		for second := range 3 {
			if decided := j.Observe(time.Unix(int64(second), 0), stable, canary); decided.Outcome == "" {
				t.Errorf("%+v", decided)
			}
		}
		if _, err := j.State(); err != nil {
			t.Error(err)
		}
	})
}
