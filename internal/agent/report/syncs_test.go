package report_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/agent/report"
	"slipway.dev/slipway/internal/wire/platformv1"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func minute(n int) metav1.Time { return metav1.Time{Time: noon.Add(time.Duration(n) * time.Minute)} }

// past is an entry of a history that ended at a minute.
func past(revision string, n int) v1alpha1.RevisionHistory {
	started := minute(n - 1)
	return v1alpha1.RevisionHistory{ID: int64(n), Revision: revision, DeployStartedAt: &started, DeployedAt: minute(n), InitiatedBy: v1alpha1.OperationInitiator{Username: "ada"}}
}

// operation is one that ended at a minute.
func operation(revision string, n int, phase v1alpha1.OperationPhase) *v1alpha1.OperationState {
	finished := minute(n)
	return &v1alpha1.OperationState{
		Operation: v1alpha1.Operation{Sync: &v1alpha1.SyncOperation{}}, Phase: phase, Message: "it failed: password=hunter2",
		SyncResult: &v1alpha1.SyncOperationResult{Revision: revision}, StartedAt: minute(n - 1), FinishedAt: &finished,
	}
}

// sync changes the status of the Application shop.
func (c *cluster) sync(health string, state *v1alpha1.OperationState, history ...v1alpha1.RevisionHistory) {
	c.set("shop", health, func(app *v1alpha1.Application) { app.Status.OperationState, app.Status.History = state, history })
}

// shown lists syncs with the revision before and the minute of their end.
func shown(syncs []*platformv1.ReportedSync) string {
	var words []string
	for _, sync := range syncs {
		word := fmt.Sprintf("%s>%s@%d", sync.GetPreviousRevision(), sync.GetRevision(), int(sync.GetFinishedAt().AsTime().Sub(noon).Minutes()))
		if !sync.GetSucceeded() {
			word = "!" + word
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// TestSyncs: the syncs of a status, each once, and only complete ones that ended.
func TestSyncs(t *testing.T) {
	with := func(change func(*v1alpha1.OperationState)) *v1alpha1.OperationState {
		state := operation("C", 9, v1alpha1.OperationFailed)
		change(state)
		return state
	}
	history := []v1alpha1.RevisionHistory{past("A", 1), past("B", 3)}
	for name, test := range map[string]struct {
		status v1alpha1.ApplicationStatus
		want   string
	}{
		"none":              {v1alpha1.ApplicationStatus{}, ""},
		"history":           {v1alpha1.ApplicationStatus{History: history}, ">A@1 A>B@3"},
		"the last in both":  {v1alpha1.ApplicationStatus{History: history, OperationState: operation("B", 3, v1alpha1.OperationSucceeded)}, ">A@1 A>B@3"},
		"without a history": {v1alpha1.ApplicationStatus{OperationState: operation("B", 3, v1alpha1.OperationSucceeded)}, ">B@3"},
		"failed":            {v1alpha1.ApplicationStatus{History: history, OperationState: operation("C", 9, v1alpha1.OperationFailed)}, ">A@1 A>B@3 !B>C@9"},
		"error":             {v1alpha1.ApplicationStatus{History: history, OperationState: operation("C", 9, v1alpha1.OperationError)}, ">A@1 A>B@3 !B>C@9"},
		"running":           {v1alpha1.ApplicationStatus{OperationState: with(func(s *v1alpha1.OperationState) { s.FinishedAt, s.Phase = nil, v1alpha1.OperationRunning })}, ""},
		"dry run":           {v1alpha1.ApplicationStatus{OperationState: with(func(s *v1alpha1.OperationState) { s.Operation.Sync.DryRun = true })}, ""},
		"single objects": {v1alpha1.ApplicationStatus{OperationState: with(func(s *v1alpha1.OperationState) {
			s.Operation.Sync.Resources = make([]v1alpha1.SyncOperationResource, 1)
		})}, ""},
		"no result": {v1alpha1.ApplicationStatus{OperationState: with(func(s *v1alpha1.OperationState) { s.SyncResult = nil })}, ""},
	} {
		app := &v1alpha1.Application{Status: test.status}
		syncs := report.Message(app, runtimeName, noon).GetSyncs()
		if got := shown(syncs); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
		for _, sync := range syncs {
			if strings.Contains(sync.GetMessage(), "hunter2") {
				t.Errorf("%s: a secret is reported: %s", name, sync.GetMessage())
			}
		}
	}
	long := &v1alpha1.Application{}
	for n := range 60 {
		long.Status.History = append(long.Status.History, past(fmt.Sprint("r", n), n))
	}
	if syncs := report.Message(long, runtimeName, noon).GetSyncs(); len(syncs) != 50 || syncs[49].GetRevision() != "r59" {
		t.Errorf("%d syncs are reported, up to %v", len(syncs), syncs[len(syncs)-1])
	}
}

// TestSyncsWhilePlatformIsAway: failed syncs that the status no longer has reach the
// platform, also over a restart of the agent.
func TestSyncsWhilePlatformIsAway(t *testing.T) {
	p, c := newPlatform(t), newCluster()
	folder := t.TempDir()
	c.set("shop", "Healthy")
	l := start(t, p, c, folder)
	p.await(t, c)
	// A resync that is not acknowledged begins again with the next process, and has the
	// status alone. The first event may be in the request of the resync's end; the second
	// one is sent after its response.
	for range 2 {
		c.set("shop", "Progressing")
		p.await(t, c)
	}
	p.change(func(p *platform) { p.away = true })
	c.sync("Degraded", operation("B", 2, v1alpha1.OperationFailed))
	c.sync("Degraded", operation("C", 4, v1alpha1.OperationFailed))
	l.end(t, c)
	start(t, p, c, folder)
	c.sync("Healthy", operation("D", 6, v1alpha1.OperationSucceeded), past("D", 6))
	p.change(func(p *platform) { p.away = false })
	p.await(t, c)
	p.change(func(p *platform) {
		// The first one may have been on its way alone.
		for _, want := range []string{"!>B@2", "!>C@4", ">D@6"} {
			if got := shown(p.data.syncs); !slices.Contains(strings.Fields(got), want) {
				t.Errorf("the platform has %q, without %s", got, want)
			}
		}
	})
}

// TestCommitTimes: the newest commit is looked up once, and again after a failure.
func TestCommitTimes(t *testing.T) {
	p, c := newPlatform(t), newCluster()
	c.set("shop", "Healthy")
	calls, broken := 0, true
	start(t, p, c, t.TempDir(), func(o *report.Options) {
		o.CommitTime = func(_ context.Context, namespace, name, revision string) (time.Time, error) {
			calls++
			if broken {
				broken = false
				return time.Time{}, context.DeadlineExceeded
			}
			if namespace != "argocd" || name != "shop" || revision != "B" {
				t.Errorf("looked up %s/%s %s", namespace, name, revision)
			}
			return noon, nil
		}
	})
	p.await(t, c)
	for _, health := range []string{"Progressing", "Degraded", "Healthy", "Missing"} {
		c.sync(health, nil, past("A", 1), past("B", 3))
		p.await(t, c)
	}
	p.change(func(p *platform) {
		syncs := p.data.apps[where{"argocd", "shop"}].GetSyncs()
		if len(syncs) != 2 || syncs[0].GetCommittedAt() != nil || !syncs[1].GetCommittedAt().AsTime().Equal(noon) {
			t.Errorf("the platform has %v", syncs)
		}
	})
	if calls != 2 {
		t.Errorf("%d lookups, want 2", calls)
	}
}
