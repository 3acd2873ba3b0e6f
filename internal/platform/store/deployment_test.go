package store_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/platform/store"
)

// dawn is when the first syncs of a test end.
var dawn = time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)

// syncs reads syncs such as "A@1 !B@2": a revision, and the minute at which its sync
// ended; an exclamation mark is a failure.
func syncs(t testing.TB, text string) (all []store.Sync) {
	t.Helper()
	for _, word := range strings.Fields(text) {
		revision, minute, _ := strings.Cut(word, "@")
		at := dawn.Add(time.Duration(must(strconv.Atoi(minute))(t)) * time.Minute)
		all = append(all, store.Sync{
			Revision: strings.TrimPrefix(revision, "!"), Succeeded: !strings.HasPrefix(revision, "!"), StartedAt: at.Add(-30 * time.Second), FinishedAt: at,
		})
	}
	return all
}

// deployed lists the deployments of an account, the oldest first: !B failed, <A went
// back, and B~ was rolled back.
func deployed(t testing.TB, w *world, account store.Account) string {
	t.Helper()
	words := allPages(t, 2, func(page store.Page) ([]store.Deployment, string, error) {
		return w.Deployments(t.Context(), account.ID, store.DeploymentFilter{}, page)
	}, func(d store.Deployment) string {
		word := d.Revision
		if !d.Succeeded {
			word = "!" + word
		}
		if d.GoingBack {
			word = "<" + word
		}
		if !d.RolledBackAt.IsZero() {
			word += "~"
		}
		return word
	})
	for i, j := 0, len(words)-1; i < j; i, j = i+1, j-1 {
		words[i], words[j] = words[j], words[i]
	}
	return strings.Join(words, " ")
}

// Each sync that changes the revision is one deployment, however often it is reported.
func TestDeployments(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ reports, want string }{
		"one":                            {"A@1", "A"},
		"reported again":                 {"A@1 B@2; A@1 B@2; A@1 B@2", "A B"},
		"the history moves on":           {"A@1 B@2; B@2 C@3; C@3 D@4", "A B C D"},
		"a sync of the live revision":    {"A@1 A@2; A@2 A@3", "A"},
		"back":                           {"A@1 B@2 A@3", "A B~ <A"},
		"back, one by one":               {"A@1; A@1 B@2; B@2 A@3; B@2 A@3", "A B~ <A"},
		"forward again":                  {"A@1 B@2 A@3 B@4", "A B~ <A B"},
		"two back":                       {"A@1 B@2 C@3 A@4", "A B C~ <A"},
		"back to a revision in between":  {"A@1 B@2 C@3 B@4", "A B C~ <B"},
		"a failure":                      {"A@1 !B@2", "A !B"},
		"a failure alone":                {"!A@1", "!A"},
		"repeated failures are one":      {"A@1 !B@2; A@1 !B@3; A@1 !B@4", "A !B"},
		"failures of two revisions":      {"A@1 !B@2; A@1 !C@3", "A !B !C"},
		"failures with one in between":   {"A@1 !B@2; A@1 !C@3; A@1 !B@4", "A !B !C !B"},
		"a failure, and then success":    {"A@1 !B@2; A@1 B@3", "A !B B"},
		"a failure of the live revision": {"A@1 !A@2", "A"},
		"a failure does not go live":     {"A@1 !B@2; A@1 A@3", "A !B"},
		"out of order in one report":     {"C@3 A@1 B@2", "A B C"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, w *world) {
				account := w.account("Harbour")
				runtime := w.runtime(account, "prod")
				for i, report := range strings.Split(test.reports, ";") {
					change := app(2, "shop")
					change.Application.Project, change.Application.Syncs = "sea", syncs(t, report)
					// A new stream each: an agent that was started again.
					stream := "s" + strconv.Itoa(i)
					must(w.ApplyReport(t.Context(), runtime.ID, stream, []store.ReportChange{begin(1), change, end(3)}))(t)
					must(w.ApplyReport(t.Context(), runtime.ID, stream, []store.ReportChange{begin(1), change, end(3)}))(t)
				}
				if got := deployed(t, w, account); got != test.want {
					t.Errorf("got %q, want %q", got, test.want)
				}
			})
		})
	}
}

// The revision before decides also when its own row is gone, and another UID is another
// application.
func TestDeploymentIdentity(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		account := w.account("Harbour")
		runtime := w.runtime(account, "prod")
		report := func(number int64, uid, previous, text string) {
			t.Helper()
			change := app(number, "shop")
			change.Application.UID, change.Application.Syncs = uid, syncs(t, text)
			change.Application.Syncs[0].PreviousRevision = previous
			must(w.ApplyReport(t.Context(), runtime.ID, "s", []store.ReportChange{begin(number - 1), change, end(number + 1)}))(t)
		}
		report(2, "one", "A", "A@1")
		if got := deployed(t, w, account); got != "" {
			t.Errorf("a sync of the revision before is a deployment: %q", got)
		}
		report(5, "one", "A", "B@2")
		report(8, "two", "", "B@2")
		if got := deployed(t, w, account); got != "B B" {
			t.Errorf("got %q", got)
		}
		all, _, err := w.NewestDeployments(t.Context(), account.ID, store.DeploymentFilter{RuntimeID: runtime.ID, Namespace: "apps", Name: "shop"})
		if err != nil || len(all) != 2 || all[0].PreviousRevision != "A" && all[1].PreviousRevision != "A" {
			t.Errorf("got %+v, %v", all, err)
		}
	})
}

// A commit may be found after the sync was reported, and is not forgotten.
func TestDeploymentCommit(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		account := w.account("Harbour")
		runtime := w.runtime(account, "prod")
		for i, committed := range []time.Time{{}, dawn, {}, dawn.Add(time.Hour)} {
			change := app(int64(3*i+2), "shop")
			change.Application.Syncs = syncs(t, "A@5")
			change.Application.Syncs[0].CommittedAt = committed
			must(w.ApplyReport(t.Context(), runtime.ID, "s", []store.ReportChange{begin(change.Number - 1), change, end(change.Number + 1)}))(t)
		}
		all, _, err := w.NewestDeployments(t.Context(), account.ID, store.DeploymentFilter{})
		if err != nil || len(all) != 1 || !all[0].CommittedAt.Equal(dawn) || !all[0].FinishedAt.Equal(dawn.Add(5*time.Minute)) {
			t.Errorf("got %+v, %v", all, err)
		}
	})
}

// What ended before the time is deleted, and what ended at it stays. Filters have the
// same bounds.
func TestDeploymentRetention(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		account := w.account("Harbour")
		runtime := w.runtime(account, "prod")
		change := app(2, "shop")
		change.Application.Syncs = syncs(t, "A@1 B@2 C@3")
		must(w.ApplyReport(t.Context(), runtime.ID, "s", []store.ReportChange{begin(1), change, end(3)}))(t)
		second := dawn.Add(2 * time.Minute)
		count := func(filter store.DeploymentFilter) int {
			all, _, err := w.NewestDeployments(t.Context(), account.ID, filter)
			if err != nil {
				t.Fatal(err)
			}
			return len(all)
		}
		for filter, want := range map[store.DeploymentFilter]int{
			{Since: second}: 2, {Since: second.Add(time.Microsecond)}: 1, {Until: second}: 1, {Until: second.Add(time.Microsecond)}: 2,
			{RuntimeID: "other"}: 0, {Name: "shop", Namespace: "apps"}: 3, {Name: "other"}: 0, {Project: "other"}: 0,
		} {
			if got := count(filter); got != want {
				t.Errorf("%+v: %d deployments, want %d", filter, got, want)
			}
		}
		for _, step := range []struct {
			before time.Time
			left   string
		}{{dawn.Add(time.Minute), "A B C"}, {second, "B C"}, {second.Add(time.Microsecond), "C"}} {
			if more := must(w.ExpireDeployments(t.Context(), step.before))(t); more {
				t.Error("there is more than a batch")
			}
			if got := deployed(t, w, account); got != step.left {
				t.Errorf("before %v: %q is left, want %q", step.before, got, step.left)
			}
		}
		must(0, w.DeleteRuntime(t.Context(), account.ID, runtime.ID, w.clock.Now()))(t)
		if got := deployed(t, w, account); got != "" {
			t.Errorf("%q is left of a runtime that is gone", got)
		}
	})
}

func TestDeploymentLimits(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		account := w.account("Harbour")
		runtime := w.runtime(account, "prod")
		change := app(2, "shop")
		change.Application.Syncs = make([]store.Sync, store.MaxSyncs+1)
		_, err := w.ApplyReport(t.Context(), runtime.ID, "s", []store.ReportChange{begin(1), change})
		wantInvalid(t, err)
		// Nothing that is counted: no revision, no times.
		change.Application.Syncs = append(syncs(t, "A@1")[:0:0], store.Sync{Revision: "A", Succeeded: true}, store.Sync{StartedAt: dawn, FinishedAt: dawn})
		must(w.ApplyReport(t.Context(), runtime.ID, "s", []store.ReportChange{begin(1), change, end(3)}))(t)
		if got := deployed(t, w, account); got != "" {
			t.Errorf("got %q", got)
		}
	})
}

// One replica has a task at a time, and another one when its time is over.
func TestTasks(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		claim := func(holder string) bool {
			t.Helper()
			return must(w.ClaimTask(t.Context(), "clean", holder, time.Minute))(t)
		}
		if task := must(w.Task(t.Context(), "clean"))(t); task != (store.Task{Name: "clean"}) {
			t.Errorf("got %+v", task)
		}
		if !claim("one") || claim("two") || !claim("one") {
			t.Error("the first one does not have the task alone")
		}
		finished := w.clock.advance(time.Minute - time.Microsecond)
		if claim("two") {
			t.Error("the task was taken before its time was over")
		}
		must(0, w.FinishTask(t.Context(), "clean", "two", nil))(t)
		must(0, w.FinishTask(t.Context(), "clean", "one", nil))(t)
		if task := must(w.Task(t.Context(), "clean"))(t); task.Holder != "one" || !task.FinishedAt.Equal(finished) {
			t.Errorf("got %+v, want one at %v", task, finished)
		}
		w.clock.advance(time.Microsecond)
		if !claim("two") || claim("one") {
			t.Error("the task was not taken when its time was over")
		}
		must(0, w.FinishTask(t.Context(), "clean", "two", store.ErrUnavailable))(t)
		if task := must(w.Task(t.Context(), "clean"))(t); task.Problem == "" || !task.FinishedAt.Equal(finished) {
			t.Errorf("got %+v", task)
		}
	})
}
