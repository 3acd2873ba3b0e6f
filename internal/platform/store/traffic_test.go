package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/platform/store"
)

// setCounts stores what an edge has counted.
func (w *world) setCounts(runtime store.Runtime, edge, counts string) {
	w.t.Helper()
	must(0, w.ChangeTraffic(w.t.Context(), runtime.ID, edge, func(c *store.TrafficChange) error { return c.SetCounts([]byte(counts)) }))(w.t)
}

// counts returns what an edge had counted.
func (w *world) counts(runtime store.Runtime, edge string) (counts string) {
	w.t.Helper()
	must(0, w.ChangeTraffic(w.t.Context(), runtime.ID, edge, func(c *store.TrafficChange) error {
		stored, err := c.Counts()
		counts = string(stored)
		return err
	}))(w.t)
	return counts
}

// Counts are of one edge of one runtime. A failed change stores nothing.
func TestTrafficCounts(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		account := w.account("Harbour")
		prod, test := w.runtime(account, "prod"), w.runtime(account, "test")
		w.setCounts(prod, "one", "1")
		w.setCounts(prod, "one", "2")
		w.setCounts(test, "one", "3")
		broken := errors.New("broken")
		if err := w.ChangeTraffic(t.Context(), prod.ID, "one", func(c *store.TrafficChange) error { return errors.Join(c.SetCounts([]byte("4")), broken) }); !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
		if got := w.counts(prod, "one") + w.counts(test, "one") + w.counts(prod, "two"); got != "23" {
			t.Errorf("got %q", got)
		}
		never := func(*store.TrafficChange) error { return broken }
		if err := w.ChangeTraffic(t.Context(), "other", "one", never); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a runtime that is not there: %v", err)
		}
		wantInvalid(t, w.ChangeTraffic(t.Context(), prod.ID, "", never))
		wantInvalid(t, w.ChangeTraffic(t.Context(), prod.ID, strings.Repeat("e", 513), never))
	})
}

// Of too many edges the one that reported longest ago is forgotten, and those of other
// runtimes stay. Edges that no longer report expire.
func TestTrafficEdgesAreBounded(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		account := w.account("Harbour")
		prod, test := w.runtime(account, "prod"), w.runtime(account, "test")
		w.setCounts(test, "e0", "other")
		for i := range 256 {
			w.clock.advance(time.Second)
			w.setCounts(prod, fmt.Sprint("e", i), "x")
		}
		w.clock.advance(time.Second)
		w.setCounts(prod, "e0", "again")
		if got := w.counts(prod, "e1"); got != "x" {
			t.Errorf("the second edge has %q before there are too many", got)
		}
		w.clock.advance(time.Second)
		w.setCounts(prod, "e256", "x")
		if got := w.counts(prod, "e0") + w.counts(prod, "e1") + w.counts(prod, "e2") + w.counts(test, "e0"); got != "againxother" {
			t.Errorf("got %q", got)
		}
		last := w.clock.advance(0)
		for _, step := range []struct {
			before time.Time
			left   string
		}{{last, "x"}, {last.Add(time.Microsecond), ""}} {
			if more := must(w.ExpireTrafficEdges(t.Context(), step.before))(t); more {
				t.Error("there is more than a batch")
			}
			if got := w.counts(prod, "e256") + w.counts(prod, "e0") + w.counts(test, "e0"); got != step.left {
				t.Errorf("before %v: %q is left, want %q", step.before, got, step.left)
			}
		}
	})
}

// Sums are read in order within a half-open interval, some at a time, and deleted by
// their step and time, in batches. Those of a runtime go with it.
func TestTrafficSums(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		account := w.account("Harbour")
		runtime := w.runtime(account, "prod")
		minute := func(n int) time.Time { return dawn.Add(time.Duration(n) * time.Minute) }
		must(0, w.ChangeTraffic(t.Context(), runtime.ID, "one", func(c *store.TrafficChange) error {
			err := c.SetSums(store.TrafficHour, dawn, []byte("hour"))
			// From the last to the first, each twice: the second one counts.
			for i := 501; i >= 0 && err == nil; i-- {
				err = errors.Join(c.SetSums(store.TrafficMinute, minute(i), []byte("old")), c.SetSums(store.TrafficMinute, minute(i), fmt.Append(nil, i)))
			}
			sums, read := c.Sums(store.TrafficMinute, minute(7))
			if none, err := c.Sums(store.TrafficMinute, minute(-1)); string(sums) != "7" || none != nil || err != nil {
				t.Errorf("got %q and %q, %v", sums, none, err)
			}
			return errors.Join(err, read)
		}))(t)
		list := func(step time.Duration, since, until time.Time) (words []string) {
			t.Helper()
			for _, sum := range must(w.TrafficSums(t.Context(), runtime.ID, step, since, until))(t) {
				words = append(words, string(sum.Sums))
			}
			return words
		}
		if got := fmt.Sprint(list(store.TrafficMinute, minute(3), minute(5)), list(store.TrafficHour, dawn, minute(5))); got != "[3 4] [hour]" {
			t.Errorf("got %s", got)
		}
		if got := list(store.TrafficMinute, dawn, minute(600)); len(got) != store.MaxTrafficRows || got[99] != "99" {
			t.Errorf("got %v", got)
		}
		for _, step := range []struct {
			more  bool
			first string
		}{{true, "[500 501]"}, {false, "[501]"}, {false, "[501]"}} {
			more := must(w.ExpireTraffic(t.Context(), store.TrafficMinute, minute(501)))(t)
			if got := fmt.Sprint(list(store.TrafficMinute, dawn, minute(600))); more != step.more || got != step.first {
				t.Errorf("more is %v and %s is left, want %+v", more, got, step)
			}
		}
		if got := list(store.TrafficHour, dawn, minute(1)); len(got) != 1 {
			t.Errorf("the hours are %v", got)
		}
		must(0, w.DeleteRuntime(t.Context(), account.ID, runtime.ID, w.clock.Now()))(t)
		if got := list(store.TrafficMinute, dawn, minute(600)); len(got) != 0 {
			t.Errorf("%v is left of a runtime that is gone", got)
		}
	})
}
