package v1alpha1_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
)

// TestSyncOptionsOfAnApplication reads every option.
func TestSyncOptionsOfAnApplication(t *testing.T) {
	got, refused := v1alpha1.ParseSyncOptions([]string{
		"Prune=false", "Delete=confirm", "Validate=false", "SkipDryRunOnMissingResource=true", "PruneLast=true", "Replace=true",
		"Force=true", "ServerSideApply=false", "ClientSideApplyMigration=false", "ApplyOutOfSyncOnly=true", "FailOnSharedResource=true",
		"RespectIgnoreDifferences=true", " CreateNamespace = true ", "PrunePropagationPolicy=orphan", "Force=false",
	}, "f")
	want := v1alpha1.SyncOptions{
		Prune: v1alpha1.Consent(v1alpha1.Off), Delete: v1alpha1.Confirm, Validate: v1alpha1.Off, SkipDryRunOnMissingResource: v1alpha1.On,
		PruneLast: v1alpha1.On, Replace: v1alpha1.On, Force: v1alpha1.Off, ServerSideApply: v1alpha1.Off, ClientSideApplyMigration: v1alpha1.Off,
		ApplyOutOfSyncOnly: v1alpha1.On, FailOnSharedResource: v1alpha1.On, RespectIgnoreDifferences: v1alpha1.On, CreateNamespace: v1alpha1.On,
		PrunePropagationPolicy: "orphan",
	}
	if len(refused) > 0 || got != want {
		t.Errorf("%+v, %v", got, refused)
	}
}

// TestSyncOptionsOfAnObject: the annotation of an object wins over the
// Application, and does not take what is the Application's alone.
func TestSyncOptionsOfAnObject(t *testing.T) {
	for _, test := range []struct {
		annotation string
		refused    string // a part of the first message; empty for none
		check      func(v1alpha1.SyncOptions) bool
	}{
		{"", "", func(o v1alpha1.SyncOptions) bool { return o == v1alpha1.SyncOptions{} }},
		{"Prune=confirm, ServerSideApply=false", "", func(o v1alpha1.SyncOptions) bool {
			allowed, confirm := o.Prune.Allowed()
			return allowed && confirm && o.ServerSideApply == v1alpha1.Off
		}},
		{"Prune=false,", "", func(o v1alpha1.SyncOptions) bool { allowed, _ := o.Prune.Allowed(); return !allowed }},
		{"CreateNamespace=true", "not for single objects", nil},
		{"prune=false", "did you mean Prune?", nil},
		{"Replace=yes", "use one of true, false", nil},
		{"=", "there is no sync option", nil},
	} {
		got, refused := v1alpha1.ParseSyncOptionsOf(map[string]string{v1alpha1.SyncOptionsAnnotation: test.annotation})
		switch {
		case test.refused == "" && (len(refused) > 0 || !test.check(got)):
			t.Errorf("%q: %+v, %v", test.annotation, got, refused)
		case test.refused != "" && (len(refused) != 1 || !strings.Contains(refused[0].Message, test.refused)):
			t.Errorf("%q: %v", test.annotation, refused)
		}
	}
	application := v1alpha1.SyncOptions{ServerSideApply: v1alpha1.On, Replace: v1alpha1.On, CreateNamespace: v1alpha1.On}
	got := v1alpha1.SyncOptions{ServerSideApply: v1alpha1.Off, Prune: v1alpha1.Confirm}.Over(application)
	want := v1alpha1.SyncOptions{ServerSideApply: v1alpha1.Off, Prune: v1alpha1.Confirm, Replace: v1alpha1.On, CreateNamespace: v1alpha1.On}
	if got != want || application.ServerSideApply != v1alpha1.On {
		t.Errorf("%+v over %+v", got, application)
	}
	if !v1alpha1.Toggle("").Or(true) || v1alpha1.Off.Or(true) || !v1alpha1.On.Or(false) {
		t.Error("a toggle that is not written is the default")
	}
}

// FuzzSyncOptions: whatever is written, nothing panics, and what is accepted
// can be put over anything.
func FuzzSyncOptions(f *testing.F) {
	f.Add("Prune=false,Replace=true")
	f.Add("PrunePropagationPolicy=foreground")
	f.Add("=,==,\xff=")
	f.Fuzz(func(t *testing.T, text string) {
		parsed, refused := v1alpha1.ParseSyncOptionsOf(map[string]string{v1alpha1.SyncOptionsAnnotation: text})
		if parsed.Over(v1alpha1.SyncOptions{}) != parsed {
			t.Errorf("%q: %+v is changed by nothing", text, parsed)
		}
		if strings.Contains(refusal.Summary(refused), "\n") {
			t.Errorf("%q: %v is more than a line", text, refused)
		}
		for i, option := range strings.Split(text, ",") {
			_, alone := v1alpha1.ParseSyncOptions([]string{option}, "x")
			if i > 100 || len(alone) > 1 {
				t.Skip()
			}
		}
	})
}

func TestRetry(t *testing.T) {
	factor := func(n int64) *int64 { return &n }
	custom := &v1alpha1.RetryStrategy{Limit: 2, Backoff: &v1alpha1.Backoff{Duration: "10", Factor: factor(3), MaxDuration: "1m"}}
	for _, test := range []struct {
		strategy *v1alpha1.RetryStrategy
		retries  int64
		want     time.Duration
		allowed  bool
	}{
		{nil, 0, 5 * time.Second, false},
		{(*v1alpha1.SyncPolicy)(nil).AutomatedRetry(), 0, 5 * time.Second, true},
		{(*v1alpha1.SyncPolicy)(nil).AutomatedRetry(), 1, 10 * time.Second, true},
		{(*v1alpha1.SyncPolicy)(nil).AutomatedRetry(), 4, 80 * time.Second, true},
		{(*v1alpha1.SyncPolicy)(nil).AutomatedRetry(), 5, 160 * time.Second, false},
		{(*v1alpha1.SyncPolicy)(nil).AutomatedRetry(), 6, 3 * time.Minute, false},
		{custom, 0, 10 * time.Second, true},
		{custom, 1, 30 * time.Second, true},
		{custom, 2, time.Minute, false},
		{&v1alpha1.RetryStrategy{}, 0, 5 * time.Second, false},
		{&v1alpha1.RetryStrategy{Limit: -1}, math.MaxInt64, 3 * time.Minute, true},
		{&v1alpha1.RetryStrategy{Backoff: &v1alpha1.Backoff{Duration: "x", MaxDuration: "y", Factor: factor(-4)}}, -1, 5 * time.Second, false},
	} {
		if got := test.strategy.Wait(test.retries); got != test.want {
			t.Errorf("%+v after %d: %s, want %s", test.strategy, test.retries, got, test.want)
		}
		if got := test.strategy.Allows(test.retries); got != test.allowed && test.retries >= 0 {
			t.Errorf("%+v after %d: allowed %t", test.strategy, test.retries, got)
		}
	}
	written := &v1alpha1.SyncPolicy{Retry: custom}
	if written.AutomatedRetry() != custom {
		t.Error("what is written does not count")
	}
}

// TestDefaults: the values of an empty spec.
func TestDefaults(t *testing.T) {
	var spec v1alpha1.ApplicationSpec
	if spec.ProjectName() != "default" || spec.HistoryLimit() != 10 || spec.AllSources() != nil || spec.SyncPolicy.IsAutomated() {
		t.Errorf("%q %d %v", spec.ProjectName(), spec.HistoryLimit(), spec.AllSources())
	}
	no, many := false, int64(math.MaxInt64)
	spec = v1alpha1.ApplicationSpec{
		Project: "a", RevisionHistoryLimit: &many, Source: &v1alpha1.ApplicationSource{Path: "one"},
		SyncPolicy: &v1alpha1.SyncPolicy{Automated: &v1alpha1.SyncPolicyAutomated{}},
	}
	if spec.ProjectName() != "a" || spec.HistoryLimit() != 1000 || spec.AllSources()[0].Path != "one" || !spec.SyncPolicy.IsAutomated() {
		t.Errorf("%+v", spec)
	}
	spec.SyncPolicy.Automated.Enabled = &no
	spec.Sources = []v1alpha1.ApplicationSource{{Path: "two"}}
	if spec.SyncPolicy.IsAutomated() || spec.AllSources()[0].Path != "two" {
		t.Errorf("%+v", spec)
	}
	var strategy *v1alpha1.SyncStrategy
	if strategy.Forced() || !strategy.RunsHooks() {
		t.Error("without a strategy hooks run and nothing is forced")
	}
	strategy = &v1alpha1.SyncStrategy{Apply: &v1alpha1.SyncStrategyForce{Force: true}}
	if !strategy.Forced() || strategy.RunsHooks() {
		t.Error("the strategy apply runs no hooks")
	}
	if v1alpha1.OperationRunning.Completed() || !v1alpha1.OperationError.Completed() {
		t.Error("phases")
	}
}
