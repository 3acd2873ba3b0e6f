package fair_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"slipway.dev/slipway/internal/gitops/fair"
)

// job is one that waits for a slot and has it for some time.
type job struct {
	project string
	comes   time.Duration
	runs    time.Duration
}

// run runs jobs and returns when each began.
func run(t *testing.T, slots *fair.Slots, jobs []job) []time.Duration {
	began := make([]time.Duration, len(jobs))
	start := time.Now()
	done := make(chan struct{})
	for i, one := range jobs {
		go func() {
			defer func() { done <- struct{}{} }()
			<-time.After(one.comes)
			if err := slots.Acquire(t.Context(), one.project); err != nil {
				t.Error(err)
			}
			began[i] = time.Since(start)
			<-time.After(one.runs)
			slots.Release(one.project)
		}()
	}
	for range jobs {
		<-done
	}
	return began
}

// many are slow jobs of one project that come at the start.
func many(project string, count int) []job {
	return slices.Repeat([]job{{project: project, runs: time.Minute}}, count)
}

// A project with 500 slow jobs delays others by one job at most, with one slot and
// with several, and each of them: the time does not grow with what waits.
func TestOthersWaitForOneJob(t *testing.T) {
	for _, count := range []int{1, 2, 8} {
		synctest.Test(t, func(t *testing.T) {
			jobs := many("slow", 500)
			for i := range 5 {
				jobs = append(jobs, job{project: "good", comes: time.Duration(i)*10*time.Minute + time.Second, runs: time.Second})
			}
			for i, at := range run(t, fair.NewSlots(count, count), jobs)[500:] {
				if waited := at - jobs[500+i].comes; waited > time.Minute {
					t.Errorf("%d slots: job %d waited for %s", count, i, waited)
				}
			}
		})
	}
}

// With a slot that one project cannot have, others do not wait at all. The
// project has all others while nothing else waits.
func TestReservedSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		jobs := append(many("slow", 8), job{project: "good", comes: time.Second, runs: time.Second})
		began := run(t, fair.NewSlots(3, 2), jobs)
		if began[8] != time.Second {
			t.Errorf("the other project waited until %s", began[8])
		}
		slices.Sort(began[:8])
		for i, at := range began[:8] {
			if want := time.Duration(i/2) * time.Minute; at != want {
				t.Errorf("job %d began after %s, want %s", i, at, want)
			}
		}
	})
}

// Two projects that are slow share what there is, and neither delays a third.
func TestSlowProjectsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		jobs := slices.Concat(many("one", 20), many("two", 20), []job{{project: "good", comes: 90 * time.Second, runs: time.Second}})
		began := run(t, fair.NewSlots(2, 2), jobs)
		if waited := began[40] - 90*time.Second; waited > time.Minute {
			t.Errorf("the third project waited for %s", waited)
		}
		// In ten minutes there are twenty jobs.
		first := 0
		for _, at := range began[:20] {
			if at < 10*time.Minute {
				first++
			}
		}
		if first < 9 || first > 11 {
			t.Errorf("%d of the first 20 jobs are of one project", first)
		}
	})
}

// A caller that gives up leaves no trace, also if its turn comes at that moment.
func TestSlotsGiveUp(t *testing.T) {
	slots := fair.NewSlots(1, 1)
	for range 200 {
		if err := slots.Acquire(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		waited := make(chan error)
		go func() { waited <- slots.Acquire(ctx, "b") }()
		go cancel()
		slots.Release("a")
		if err := <-waited; err == nil {
			slots.Release("b")
		} else if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
}

// Close wakes those that wait, and lets others end.
func TestSlotsClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := fair.NewSlots(1, 1)
		if err := slots.Acquire(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		waited := make(chan error)
		go func() { waited <- slots.Acquire(t.Context(), "b") }()
		synctest.Wait()
		slots.Close()
		if err := <-waited; !errors.Is(err, fair.ErrClosed) {
			t.Errorf("a caller that waited gets %v", err)
		}
		slots.Release("a")
		if err := slots.Acquire(t.Context(), "c"); !errors.Is(err, fair.ErrClosed) {
			t.Errorf("a caller that came later gets %v", err)
		}
	})
}
