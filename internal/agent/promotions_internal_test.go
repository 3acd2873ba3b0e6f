package agent

import (
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/agent/report"
)

// TestReportedApplication: what promotions need of an Application comes back from its
// report as it was.
func TestReportedApplication(t *testing.T) {
	app := &v1alpha1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: "argocd", Name: "web", UID: "1", Labels: map[string]string{"codefresh.io/product": "shop"}}}
	source := v1alpha1.ApplicationSource{RepoURL: "https://git.example.com/shop.git", Path: "env/prod", TargetRevision: "main"}
	app.Spec.Source = &source
	app.Spec.Destination = v1alpha1.ApplicationDestination{Server: "https://cluster.example.com", Namespace: "web"}
	app.Status.Sync = v1alpha1.SyncStatus{Status: v1alpha1.SyncSynced, Revision: "abc"}
	app.Status.Health.Status = v1alpha1.Healthy
	app.Status.Held = &v1alpha1.HeldRevision{Message: "errors", HeldAt: metav1.NewTime(time.Unix(1700000000, 0).UTC())}
	check := func() {
		t.Helper()
		got := reportedApplication(report.Message(app, "eu", time.Now()))
		if got.Name != app.Name || got.Namespace != app.Namespace || got.UID != app.UID || !reflect.DeepEqual(got.Labels, app.Labels) ||
			!reflect.DeepEqual(got.Spec.AllSources(), app.Spec.AllSources()) || got.Spec.Destination != app.Spec.Destination ||
			got.Status.Sync.Status != app.Status.Sync.Status || got.Status.Sync.Revision != app.Status.Sync.Revision || got.Status.Health.Status != app.Status.Health.Status ||
			(got.Status.Held == nil) != (app.Status.Held == nil) || got.Status.Held != nil && (got.Status.Held.Message != app.Status.Held.Message || !got.Status.Held.HeldAt.Equal(&app.Status.Held.HeldAt)) {
			t.Errorf("%+v\ncomes back as\n%+v", app, got)
		}
	}
	check()
	app.Spec.Destination = v1alpha1.ApplicationDestination{Name: "in-cluster", Namespace: "web"}
	app.Status.Held = nil
	source = v1alpha1.ApplicationSource{RepoURL: "https://charts.example.com", Chart: "web", TargetRevision: "1.0.0"}
	check()
}
