package reconcile

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/window"
)

func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// outOfSync is an automated Application of which one object drifted, and that
// was never synced.
func outOfSync() *autoSyncInput {
	return &autoSyncInput{
		policy:    &v1alpha1.SyncPolicy{Automated: &v1alpha1.SyncPolicyAutomated{}},
		sources:   []v1alpha1.ApplicationSource{{RepoURL: "https://git.example/shop", Path: "web", TargetRevision: "main"}},
		revisions: []string{"aaa"},
		sync:      v1alpha1.SyncOutOfSync,
		resources: []v1alpha1.ResourceStatus{
			{Kind: "ConfigMap", Name: "one", Status: v1alpha1.SyncOutOfSync},
			{Kind: "ConfigMap", Name: "two", Status: v1alpha1.SyncSynced},
		},
		window: window.Decision{CanSync: true, CanManual: true},
		now:    noon(),
	}
}

// synced gives a situation whose last operation ended some time ago.
func synced(s *autoSyncInput, phase v1alpha1.OperationPhase, ago time.Duration) {
	s.last = &v1alpha1.OperationState{
		Operation: v1alpha1.Operation{Sync: &v1alpha1.SyncOperation{}}, Phase: phase, Message: "what happened",
		SyncResult: &v1alpha1.SyncOperationResult{Revision: "aaa", Source: &v1alpha1.ApplicationSource{
			RepoURL: "https://git.example/shop", Path: "web", TargetRevision: "main",
		}},
		FinishedAt: &metav1.Time{Time: s.now.Add(-ago)},
	}
}

// The rules are those of Argo CD's page "Automated Sync Policy".
func TestAutomatedSyncStartsAsArgoDocuments(t *testing.T) {
	no := false
	tests := []struct {
		name   string
		change func(*autoSyncInput)
		// want is start, or what the reason has in it.
		want string
	}{
		{"out of sync", func(*autoSyncInput) {}, "start"},
		{"no policy", func(s *autoSyncInput) { s.policy = nil }, "not automated"},
		{"turned off", func(s *autoSyncInput) { s.policy.Automated.Enabled = &no }, "not automated"},
		{"in sync", func(s *autoSyncInput) { s.sync = v1alpha1.SyncSynced }, "is Synced"},
		{"not known", func(s *autoSyncInput) { s.sync = v1alpha1.SyncUnknown }, "is Unknown"},
		{"only pruning, and that is not allowed", func(s *autoSyncInput) { s.resources[0].RequiresPruning = true }, "only pruning"},
		{"only pruning, and that is allowed", func(s *autoSyncInput) {
			s.resources[0].RequiresPruning, s.policy.Automated.Prune = true, true
		}, "start"},
		{"this revision was synced", func(s *autoSyncInput) { synced(s, v1alpha1.OperationSucceeded, time.Hour) }, "selfHeal is off"},
		{"this revision failed", func(s *autoSyncInput) { synced(s, v1alpha1.OperationFailed, time.Hour) }, "Failed last sync attempt to aaa: what happened"},
		{"this revision failed, selfHeal does not help", func(s *autoSyncInput) {
			synced(s, v1alpha1.OperationFailed, time.Hour)
			s.policy.Automated.SelfHeal = true
		}, "Failed last sync attempt"},
		{"another revision failed", func(s *autoSyncInput) {
			synced(s, v1alpha1.OperationFailed, time.Hour)
			s.revisions = []string{"bbb"}
		}, "start"},
		{"other parameters failed", func(s *autoSyncInput) {
			synced(s, v1alpha1.OperationFailed, time.Hour)
			s.sources[0].Helm = &v1alpha1.ApplicationSourceHelm{Values: "a: b"}
		}, "start"},
		{"the branch has another name, the rest is the same", func(s *autoSyncInput) {
			synced(s, v1alpha1.OperationFailed, time.Hour)
			s.sources[0].TargetRevision = "HEAD"
		}, "Failed last sync attempt"},
		{"a dry run does not count", func(s *autoSyncInput) {
			synced(s, v1alpha1.OperationSucceeded, time.Hour)
			s.last.Operation.Sync.DryRun = true
		}, "start"},
		{"a sync of some resources does not count", func(s *autoSyncInput) {
			synced(s, v1alpha1.OperationSucceeded, time.Hour)
			s.last.Operation.Sync.Resources = []v1alpha1.SyncOperationResource{{Kind: "ConfigMap", Name: "two"}}
		}, "start"},
		{"an operation that ended before it had a revision", func(s *autoSyncInput) {
			synced(s, v1alpha1.OperationError, time.Hour)
			s.last.SyncResult = nil
		}, "start"},
		{"a window is closed", func(s *autoSyncInput) { s.window = window.Decision{Why: "deny at night", Until: s.now.Add(time.Hour)} }, "deny at night"},
		{"nothing would be left", func(s *autoSyncInput) {
			s.policy.Automated.Prune = true
			s.resources = []v1alpha1.ResourceStatus{{Kind: "ConfigMap", Name: "one", Status: v1alpha1.SyncOutOfSync, RequiresPruning: true}}
		}, "wipe out all resources"},
		{"nothing would be left, and that is meant", func(s *autoSyncInput) {
			s.policy.Automated.Prune, s.policy.Automated.AllowEmpty = true, true
			s.resources = []v1alpha1.ResourceStatus{{Kind: "ConfigMap", Name: "one", Status: v1alpha1.SyncOutOfSync, RequiresPruning: true}}
		}, "start"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := outOfSync()
			test.change(s)
			got := decide(s)
			switch {
			case test.want == "start" && got.start == nil:
				t.Errorf("nothing starts: %s", got.why)
			case test.want != "start" && got.start != nil:
				t.Errorf("it starts, want %q", test.want)
			case test.want != "start" && !strings.Contains(got.why, test.want):
				t.Errorf("the reason is %q, want %q in it", got.why, test.want)
			}
		})
	}
}

func TestAutomatedOperation(t *testing.T) {
	s := outOfSync()
	s.policy.Automated.Prune = true
	got := decide(s).start
	if got == nil || !got.InitiatedBy.Automated || !got.Sync.Prune || got.Sync.Revision != "aaa" || len(got.Sync.Resources) > 0 {
		t.Fatalf("the operation is %+v", got)
	}
	if !got.Retry.Allows(4) || got.Retry.Allows(5) {
		t.Error("it is tried again another number of times than five")
	}
	s.revisions = []string{"aaa", "bbb"}
	if got := decide(s).start; got.Sync.Revision != "" || !slices.Equal(got.Sync.Revisions, s.revisions) {
		t.Errorf("the operation for two sources is %+v", got.Sync)
	}
}

// A closed window is looked at again when it may open.
func TestWindowSaysWhenToLookAgain(t *testing.T) {
	s := outOfSync()
	s.window = window.Decision{Until: s.now.Add(time.Hour)}
	if got := decide(s); !got.requeueAt.Equal(s.window.Until) {
		t.Errorf("it is looked at again at %v, want %v", got.requeueAt, s.window.Until)
	}
}

// Argo CD's numbers: 2 s, 6 s, 18 s and so on, at most 300 s, and from the start
// after 330 s of peace.
func TestSelfHealWaitsLongerAndLonger(t *testing.T) {
	tests := []struct {
		attempts int64
		ago      time.Duration
		wait     time.Duration // 0: at once
		next     int64
	}{
		{attempts: 0, ago: 0, next: 1},
		{attempts: 1, ago: time.Second, wait: time.Second},
		{attempts: 1, ago: 2 * time.Second, next: 2},
		{attempts: 2, ago: time.Second, wait: 5 * time.Second},
		{attempts: 3, ago: 17 * time.Second, wait: time.Second},
		{attempts: 6, ago: 0, wait: 300 * time.Second},
		{attempts: 50, ago: 299 * time.Second, wait: time.Second},
		{attempts: 50, ago: 300 * time.Second, next: 51},
		{attempts: 50, ago: 330 * time.Second, next: 1},
	}
	for _, test := range tests {
		s := outOfSync()
		s.policy.Automated.SelfHeal = true
		synced(s, v1alpha1.OperationSucceeded, test.ago)
		s.last.Operation.Sync.SelfHealAttemptsCount = test.attempts
		if test.attempts > 0 {
			s.last.Operation.Sync.Resources = []v1alpha1.SyncOperationResource{{Kind: "ConfigMap", Name: "one"}}
		}
		got := decide(s)
		switch {
		case test.wait > 0 && (got.start != nil || !got.requeueAt.Equal(s.now.Add(test.wait))):
			t.Errorf("after %d repairs, %v ago: %+v, want a wait of %v", test.attempts, test.ago, got, test.wait)
		case test.wait == 0 && got.start == nil:
			t.Errorf("after %d repairs, %v ago: nothing starts: %s", test.attempts, test.ago, got.why)
		case test.wait == 0 && got.start.Sync.SelfHealAttemptsCount != test.next:
			t.Errorf("after %d repairs, %v ago: it is number %d, want %d", test.attempts, test.ago, got.start.Sync.SelfHealAttemptsCount, test.next)
		}
	}
}

// As in Argo CD a repair is a sync of what drifted.
func TestSelfHealIsSelective(t *testing.T) {
	s := outOfSync()
	s.policy.Automated.SelfHeal = true
	s.resources[0].Namespace = "shop"
	synced(s, v1alpha1.OperationSucceeded, time.Minute)
	got := decide(s).start
	want := []v1alpha1.SyncOperationResource{{Kind: "ConfigMap", Namespace: "shop", Name: "one"}}
	if got == nil || !slices.Equal(got.Sync.Resources, want) {
		t.Errorf("the operation is %+v, want one for %+v", got, want)
	}
}
