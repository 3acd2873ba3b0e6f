package migrate_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/migrate"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// TestMove: R4, R29: an Application moves to the runtime while Argo CD runs, with its
// resources untouched; the runtime then syncs and prunes it; and it moves back.
func TestMove(t *testing.T) {
	w := newWorld(t)
	w.start(w.argo)
	w.start(w.control)
	repository := w.git.Repository(t, "shop", manifests("shop"))
	w.cluster.Apply(t, w.argo, w.argoApp("shop", repository))
	w.wait(w.argo, "shop", synced)
	before, was := w.identities("shop"), essence(w.app(w.argo, "shop"))

	report := must.Get(migrate.Run(t.Context(), w.options("shop", w.cluster.Cluster)))(t)
	if len(report.Resources) != 3 {
		t.Fatalf("%d resources", len(report.Resources))
	}
	for _, resource := range report.Resources {
		if !resource.Untouched() || resource.Left != "" {
			t.Errorf("%+v", resource)
		}
	}
	if after := w.identities("shop"); !maps.Equal(before, after) {
		t.Errorf("%v became %v", before, after)
	}
	ours := w.app(w.control, "shop")
	if w.app(w.argo, "shop") != nil || ours == nil || !ours.Spec.SyncPolicy.IsAutomated() || len(ours.Finalizers) != 1 || ours.Labels["team"] != "a" {
		t.Fatalf("%+v", ours)
	}
	if again, err := migrate.Run(t.Context(), w.options("shop", w.cluster.Cluster)); err != nil || len(again.Resources) != 0 {
		t.Errorf("moving it again: %v", err)
	}

	// The runtime has it: it syncs, and would prune.
	repository.Commit(t, map[string]string{"shop/more.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\n"}, "more")
	w.configMap("more", 1)
	repository.Commit(t, map[string]string{"shop/more.yaml": gittest.Gone}, "no more")
	w.configMap("more", 0)
	w.wait(w.control, "shop", func(app *v1alpha1.Application) bool { return synced(app) && app.Operation == nil && done(app) })

	must.Get(migrate.Back(t.Context(), w.options("shop", w.cluster.Cluster)))(t)
	if got := essence(w.app(w.argo, "shop")); got != was || w.app(w.control, "shop") != nil {
		t.Errorf("it came back as %s, and was %s", got, was)
	}
	w.wait(w.argo, "shop", synced)
	if after := w.identities("shop"); !maps.Equal(before, after) {
		t.Errorf("%v became %v on the way back", before, after)
	}
}

func done(app *v1alpha1.Application) bool {
	return app.Status.OperationState == nil || app.Status.OperationState.Phase.Completed()
}

// configMap waits until there are so many of a name.
func (w *world) configMap(name string, want int) {
	w.t.Helper()
	kubetest.WaitFor(w.t, w.cluster.Client.CoreV1().ConfigMaps(w.target), kube.Named(name), patience, func(found []*configMapType) error {
		if len(found) != want {
			return fmt.Errorf("there are %d", len(found))
		}
		return nil
	})
}

// TestKilled: a move that is killed after each of its writes leaves all resources as
// they are, with at most one side that syncs; started again it ends as if nothing
// had happened, and taken back as if there had been no move. Both engines run.
func TestKilled(t *testing.T) {
	w := newWorld(t)
	w.start(w.argo)
	w.start(w.control)
	for writes := int64(1); ; writes++ {
		if !w.killAndGoOn(fmt.Sprintf("on%d", writes), writes) {
			if writes < 7 {
				t.Fatalf("%d writes were enough", writes)
			}
			return
		}
		w.killAndReturn(fmt.Sprintf("back%d", writes), writes)
	}
}

// killed kills a move after some writes. It reports whether that was before its end,
// and gives what was before.
func (w *world) killed(name string, writes int64) (before map[string]identity, was string, killed bool) {
	w.t.Helper()
	repository := w.git.Repository(w.t, name, manifests(name))
	w.cluster.Apply(w.t, w.argo, w.argoApp(name, repository))
	w.wait(w.argo, name, synced)
	before, was = w.identities(name), essence(w.app(w.argo, name))
	cluster, count := w.killedAfter(writes)
	_, err := migrate.Run(w.t.Context(), w.options(name, cluster))
	if err == nil && count.Load() != writes-1 {
		w.t.Fatalf("%d writes were made, and %d allowed", count.Load(), writes)
	}
	w.checkHalt(name, before)
	return before, was, err != nil
}

// killAndGoOn starts a killed move again.
func (w *world) killAndGoOn(name string, writes int64) bool {
	w.t.Helper()
	before, _, killed := w.killed(name, writes)
	if !killed {
		return false
	}
	if _, err := migrate.Run(w.t.Context(), w.options(name, w.cluster.Cluster)); err != nil {
		w.t.Fatalf("killed after %d writes, it does not go on: %v", writes, err)
	}
	if ours := w.app(w.control, name); ours == nil || w.app(w.argo, name) != nil || !ours.Spec.SyncPolicy.IsAutomated() || len(ours.Finalizers) != 1 {
		w.t.Errorf("killed after %d writes, it ended as %+v", writes, ours)
	}
	if after := w.identities(name); !maps.Equal(before, after) {
		w.t.Errorf("%v became %v", before, after)
	}
	return true
}

// killAndReturn takes a killed move back.
func (w *world) killAndReturn(name string, writes int64) {
	w.t.Helper()
	before, was, _ := w.killed(name, writes)
	if _, err := migrate.Back(w.t.Context(), w.options(name, w.cluster.Cluster)); err != nil {
		w.t.Fatalf("killed after %d writes, it cannot be taken back: %v", writes, err)
	}
	if got := essence(w.app(w.argo, name)); got != was || w.app(w.control, name) != nil {
		w.t.Errorf("killed after %d writes, it came back as %s, and was %s", writes, got, was)
	}
	if after := w.identities(name); !maps.Equal(before, after) {
		w.t.Errorf("%v became %v", before, after)
	}
}

// TestKilledOnTheWayBack: the same for the way back, which is taken to its end.
func TestKilledOnTheWayBack(t *testing.T) {
	w := newWorld(t)
	w.start(w.argo)
	w.start(w.control)
	for writes := int64(1); ; writes++ {
		name := fmt.Sprintf("back%d", writes)
		repository := w.git.Repository(t, name, manifests(name))
		w.cluster.Apply(t, w.argo, w.argoApp(name, repository))
		w.wait(w.argo, name, synced)
		before, was := w.identities(name), essence(w.app(w.argo, name))
		must.Get(migrate.Run(t.Context(), w.options(name, w.cluster.Cluster)))(t)
		w.wait(w.control, name, func(app *v1alpha1.Application) bool { return synced(app) && app.Operation == nil && done(app) })
		cluster, count := w.killedAfter(writes)
		_, err := migrate.Back(t.Context(), w.options(name, cluster))
		if err != nil {
			w.checkHalt(name, before)
			// The last write may be all that was missing.
			_, err := migrate.Back(t.Context(), w.options(name, w.cluster.Cluster))
			if err != nil && !strings.Contains(err.Error(), "nothing to take back") {
				t.Fatalf("killed after %d writes, it does not go on: %v", writes, err)
			}
		}
		if got := essence(w.app(w.argo, name)); got != was || w.app(w.control, name) != nil {
			t.Errorf("after %d writes it came back as %s, and was %s", writes, got, was)
		}
		if err == nil {
			if count.Load() != writes-1 || writes < 6 {
				t.Fatalf("%d writes were made, and %d allowed", count.Load(), writes)
			}
			return
		}
	}
}

// checkHalt: after a kill the resources are as they were, and no two sync.
func (w *world) checkHalt(name string, before map[string]identity) {
	w.t.Helper()
	if after := w.identities(name); !maps.Equal(before, after) {
		w.t.Errorf("%s: %v became %v", name, before, after)
	}
	theirs, ours := w.app(w.argo, name), w.app(w.control, name)
	if theirs == nil && ours == nil {
		w.t.Errorf("%s is nowhere", name)
	}
	cascades := func(finalizer string) bool { return strings.Contains(finalizer, "argocd") }
	if theirs != nil && ours != nil && (theirs.Spec.SyncPolicy.IsAutomated() || ours.Spec.SyncPolicy.IsAutomated() || slices.ContainsFunc(append(theirs.Finalizers, ours.Finalizers...), cascades)) {
		w.t.Errorf("%s is in two places, and one of them would act: %+v %+v", name, theirs.ObjectMeta, ours.ObjectMeta)
	}
}

// TestDryRun: a dry run lists the very writes that a move makes, and makes none.
func TestDryRun(t *testing.T) {
	w := newWorld(t)
	w.start(w.argo)
	w.start(w.control)
	repository := w.git.Repository(t, "shop", manifests("shop"))
	w.cluster.Apply(t, w.argo, w.argoApp("shop", repository))
	w.wait(w.argo, "shop", synced)
	tell := func(options migrate.Options, run func(migrate.Options) error) []string {
		t.Helper()
		var told []string
		options.Report = func(write migrate.Write) { told = append(told, write.Verb+" "+write.Object) }
		must.Do(t, run(options))
		return told
	}
	move := func(options migrate.Options) error { _, err := migrate.Run(t.Context(), options); return err }
	back := func(options migrate.Options) error { _, err := migrate.Back(t.Context(), options); return err }
	dry := w.options("shop", w.cluster.Cluster)
	dry.DryRun = true
	for _, run := range []func(migrate.Options) error{move, back} {
		was := essence(w.app(w.argo, "shop")) + fmt.Sprint(w.app(w.control, "shop") == nil)
		planned := tell(dry, run)
		if now := essence(w.app(w.argo, "shop")) + fmt.Sprint(w.app(w.control, "shop") == nil); now != was {
			t.Fatalf("the dry run changed %s to %s", was, now)
		}
		made := tell(w.options("shop", w.cluster.Cluster), run)
		if strings.Join(planned, "\n") != strings.Join(made, "\n") || len(made) < 6 {
			t.Errorf("planned:\n%s\nmade:\n%s", strings.Join(planned, "\n"), strings.Join(made, "\n"))
		}
		if w.app(w.control, "shop") != nil {
			w.wait(w.control, "shop", func(app *v1alpha1.Application) bool { return synced(app) && app.Operation == nil && done(app) })
			// The way back reads Argo CD's Application when it is there only.
			break
		}
	}
	if got := tell(dry, back); len(got) < 6 {
		t.Errorf("the way back is planned as %v", got)
	}
}

// TestLabelTracking: resources that Argo CD knows by a label alone get the annotation,
// and lose it on the way back; what belongs to others, or is no longer in Git, is left.
func TestLabelTracking(t *testing.T) {
	w := newWorld(t)
	w.start(w.control)
	files := manifests("shop")
	repository := w.git.Repository(t, "shop", files)
	for _, text := range files {
		labelled := strings.Replace(text, "metadata: {name: shop}", "metadata: {name: shop, labels: {app.kubernetes.io/instance: shop}}", 1)
		w.cluster.Apply(t, w.target, labelled)
	}
	w.cluster.Apply(t, w.target, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: old, labels: {app.kubernetes.io/instance: shop}}\n")
	w.cluster.Apply(t, w.target, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared, annotations: {argocd.argoproj.io/tracking-id: 'other:/ConfigMap:"+w.target+"/shared'}}\n")
	status := `{"status":{"sync":{"status":"Synced","comparedTo":{"source":{"repoURL":"x"},"destination":{}}},"resources":[
		{"version":"v1","kind":"ConfigMap","namespace":"NS","name":"shop","status":"Synced"},
		{"version":"v1","kind":"ConfigMap","namespace":"NS","name":"shared","status":"Synced"},
		{"version":"v1","kind":"ConfigMap","namespace":"NS","name":"old","status":"OutOfSync","requiresPruning":true},
		{"version":"v1","kind":"Service","namespace":"NS","name":"shop","status":"Synced"},
		{"group":"apps","version":"v1","kind":"Deployment","namespace":"NS","name":"shop","status":"Synced"}]}}`
	w.cluster.Apply(t, w.argo, w.argoApp("shop", repository))
	w.patch("shop", strings.ReplaceAll(status, "NS", w.target))
	before := w.marks()
	report := must.Get(migrate.Run(t.Context(), w.options("shop", w.cluster.Cluster)))(t)
	left := 0
	for _, resource := range report.Resources {
		if resource.Left != "" {
			left++
		}
	}
	after := w.marks()
	if left != 2 || after["old"] != before["old"] || after["shared"] != before["shared"] || after["shop"] == before["shop"] {
		t.Errorf("%d are left: %v became %v", left, before, after)
	}
	must.Get(migrate.Back(t.Context(), w.options("shop", w.cluster.Cluster)))(t)
	if got := w.marks(); !maps.Equal(got, before) {
		t.Errorf("%v came back as %v", before, got)
	}
}

// marks are labels and annotations of the ConfigMaps.
func (w *world) marks() map[string]string {
	w.t.Helper()
	list := must.Get(w.cluster.Client.CoreV1().ConfigMaps(w.target).List(w.t.Context(), metav1.ListOptions{}))(w.t)
	made := map[string]string{}
	for _, one := range list.Items {
		made[one.Name] = fmt.Sprint(one.Labels, one.Annotations)
	}
	return made
}
