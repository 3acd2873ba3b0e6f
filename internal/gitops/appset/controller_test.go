package appset_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

const kept = "  syncPolicy: {preserveResourcesOnDeletion: true}\n"

// Folders in Git become Applications, and go with their folders.
func TestGitFolders(t *testing.T) {
	s := newScene(t)
	repository := s.git.Repository(t, "a", map[string]string{"apps/web/x.yaml": "", "apps/api/x.yaml": ""})
	s.gitSet(s.control, "default", repository)
	for _, made := range s.awaits(s.control, "api,web") {
		owner := metav1.GetControllerOf(made)
		path, _, _ := unstructured.NestedString(made.Object, "spec", "source", "path")
		if owner == nil || owner.Kind != "ApplicationSet" || owner.Name != "set" || path != "apps/"+made.GetName() {
			t.Errorf("it is %v", made)
		}
		if fmt.Sprint(made.GetFinalizers()) != "[resources-finalizer.argocd.argoproj.io]" {
			t.Errorf("finalizers %v", made.GetFinalizers())
		}
	}
	s.told(s.control, "ErrorOccurred", "False", "up to date")
	s.told(s.control, "ParametersGenerated", "True", "")
	set := s.told(s.control, "ResourcesUpToDate", "True", "")
	s.settled(s.control, 2)
	if set.GetGeneration() != 1 {
		t.Errorf("the set itself was changed: generation %d", set.GetGeneration())
	}
	repository.Commit(t, map[string]string{"apps/more/x.yaml": "", "apps/api/x.yaml": gittest.Gone}, "one more, one less")
	s.refresh(repository)
	s.awaits(s.control, "more,web")
}

// Unknown fields do not stop a set: a condition names them while they are there.
func TestUnknownFieldsAreShown(t *testing.T) {
	s := newScene(t)
	s.listSet(s.control, "one", "  syncPolicies: {applicationsSync: sync}\n")
	s.awaits(s.control, "one")
	s.told(s.control, "IgnoredFieldWarning", "True", "spec.syncPolicies: it has no effect, because there is no such field: did you mean syncPolicy?")
	s.told(s.control, "ErrorOccurred", "False", "up to date")
	s.patch(s.sets(s.control), "set", `{"spec": {"syncPolicies": null}}`)
	kubetest.WaitFor(t, s.sets(s.control), kube.Named("set"), patience, func(found []*unstructured.Unstructured) error {
		conditions, _, _ := unstructured.NestedSlice(found[0].Object, "status", "conditions")
		if text := fmt.Sprint(conditions); strings.Contains(text, "IgnoredFieldWarning") {
			return errors.New("it still has the warning: " + text)
		}
		return nil
	})
}

// A repository that cannot be read deletes nothing, and the status has the error.
func TestGitDown(t *testing.T) {
	s := newScene(t)
	repository := s.git.Repository(t, "a", map[string]string{"apps/web/x.yaml": ""})
	s.gitSet(s.control, "default", repository)
	s.awaits(s.control, "web")
	s.told(s.control, "ErrorOccurred", "False", "")
	s.git.SetDown(true)
	s.refresh(repository)
	s.told(s.control, "ErrorOccurred", "True", "spec.generators[0]")
	s.told(s.control, "ParametersGenerated", "False", "")
	s.awaits(s.control, "web")
	// A controller that starts meanwhile knows nothing, and deletes nothing either.
	s.stop()
	s.start()
	s.askAgain(s.control)
	s.awaits(s.control, "web")
	if err := s.controller.Ready(); err != nil {
		t.Errorf("it is not ready: %v", err)
	}
	repository.Commit(t, map[string]string{"apps/more/x.yaml": ""}, "one more")
	s.git.SetDown(false)
	s.refresh(repository)
	s.awaits(s.control, "more,web")
	s.told(s.control, "ErrorOccurred", "False", "")
}

// Generators that suddenly give nothing delete nothing: the set shows what to do,
// also after a restart, and the annotation confirms it.
func TestEmptyResultKeepsApplications(t *testing.T) {
	s := newScene(t)
	repository := s.git.Repository(t, "a", map[string]string{"apps/web/x.yaml": "", "apps/api/x.yaml": ""})
	s.gitSet(s.control, "default", repository)
	s.awaits(s.control, "api,web")
	s.told(s.control, "ErrorOccurred", "False", "")
	repository.Commit(t, map[string]string{"apps/web/x.yaml": gittest.Gone, "apps/api/x.yaml": gittest.Gone, "applications/web/x.yaml": ""}, "rename")
	s.refresh(repository)
	s.told(s.control, "ErrorOccurred", "True", "2 exist, which are kept")
	s.told(s.control, "ResourcesUpToDate", "False", `set the annotation slipway.dev/allow-empty: "true"`)
	s.told(s.control, "ParametersGenerated", "True", "")
	s.stop()
	s.start()
	s.askAgain(s.control)
	s.awaits(s.control, "api,web")
	// One that comes back is a result like any other.
	repository.Commit(t, map[string]string{"apps/web/x.yaml": ""}, "back")
	s.refresh(repository)
	s.awaits(s.control, "web")
	s.told(s.control, "ErrorOccurred", "False", "")
	repository.Commit(t, map[string]string{"apps/web/x.yaml": gittest.Gone}, "gone")
	s.refresh(repository)
	s.told(s.control, "ErrorOccurred", "True", "1 exist, which are kept")
	s.patch(s.sets(s.control), "set", `{"metadata": {"annotations": {"slipway.dev/allow-empty": "true"}}}`)
	s.awaits(s.control, "")
	s.told(s.control, "ErrorOccurred", "False", "up to date")
}

// A policy that deletes nothing has nothing to keep, and a set that never gave
// anything is in order.
func TestEmptyResultWithoutEffect(t *testing.T) {
	s := newScene(t)
	s.listSet(s.control, "a", "  syncPolicy: {preserveResourcesOnDeletion: true, applicationsSync: create-update}\n")
	s.awaits(s.control, "a")
	s.patch(s.sets(s.control), "set", `{"spec": {"generators": [{"list": {"elements": []}}]}}`)
	s.askAgain(s.control)
	s.told(s.control, "ErrorOccurred", "False", "up to date")
	s.awaits(s.control, "a")
	repository := s.git.Repository(t, "a", map[string]string{"README.md": "x"})
	s.cluster.Apply(t, s.control, `{apiVersion: argoproj.io/v1alpha1, kind: AppProject, metadata: {name: free}, spec: {sourceRepos: ["*"], sourceNamespaces: ["*"], destinations: [{server: "*", namespace: "*"}]}}`)
	s.gitSet(s.tenant, "free", repository)
	s.told(s.tenant, "ErrorOccurred", "False", "up to date")
}

// What others change is put right, but for what is preserved; and nothing is
// written when nothing differs.
func TestDrift(t *testing.T) {
	s := newScene(t)
	s.listSet(s.control, "a,b", "  preservedFields: {annotations: [mine], labels: [mine]}\n"+kept)
	s.awaits(s.control, "a,b")
	s.settled(s.control, 2)
	s.patch(s.applications(s.control), "a", `{"metadata": {"annotations": {"mine": "1", "argocd.argoproj.io/refresh": "normal", "other": "2", "from": "me"}, "labels": {"mine": "1", "other": "2"},
		"finalizers": ["example.com/mine", "resources-finalizer.argocd.argoproj.io"]},
		"spec": {"project": "other", "revisionHistoryLimit": 3}, "operation": {"sync": {}}, "status": {"sync": {"status": "Synced"}, "health": {"status": "Healthy"}}}`)
	live := s.until(s.control, "a", func(live *unstructured.Unstructured) error {
		project, _, _ := unstructured.NestedString(live.Object, "spec", "project")
		_, limited, _ := unstructured.NestedInt64(live.Object, "spec", "revisionHistoryLimit")
		if project != "default" || limited || live.GetAnnotations()["other"] != "" || live.GetLabels()["other"] != "" || live.GetAnnotations()["from"] != "set" {
			return errors.New("it is as somebody changed it")
		}
		return nil
	})
	if live.GetAnnotations()["mine"] != "1" || live.GetLabels()["mine"] != "1" || live.GetAnnotations()["argocd.argoproj.io/refresh"] != "normal" {
		t.Errorf("what is preserved is gone: %v %v", live.GetAnnotations(), live.GetLabels())
	}
	if fmt.Sprint(live.GetFinalizers()) != "[example.com/mine]" {
		t.Errorf("finalizers %v", live.GetFinalizers())
	}
	if live.Object["operation"] == nil {
		t.Error("the operation is gone")
	}
	kubetest.WaitFor(t, s.sets(s.control), kube.Named("set"), patience, func(found []*unstructured.Unstructured) error {
		resources, _, _ := unstructured.NestedSlice(found[0].Object, "status", "resources")
		if text := fmt.Sprint(resources); !strings.Contains(text, "Healthy") || !strings.Contains(text, "Synced") {
			return fmt.Errorf("the status has %s", text)
		}
		return nil
	})
	must.Do(t, s.applications(s.control).Delete(t.Context(), "b", metav1.DeleteOptions{}))
	s.until(s.control, "b", func(*unstructured.Unstructured) error { return nil })
	s.patch(s.applications(s.control), "a", `{"metadata": {"finalizers": null}}`)
}

// TestIgnoredDifferencesAsDocumented: what others change in ignored fields stays,
// and everything else is put right.
func TestIgnoredDifferencesAsDocumented(t *testing.T) {
	s := newScene(t)
	s.listSet(s.control, "a,b", "  ignoreApplicationDifferences: [{jsonPointers: [/spec/source/targetRevision]}, {name: a, jqPathExpressions: [.spec.syncPolicy]}]\n"+kept)
	s.awaits(s.control, "a,b")
	s.settled(s.control, 2)
	for _, name := range []string{"a", "b"} {
		s.patch(s.applications(s.control), name, `{"metadata": {"labels": {"from": "me"}}, "spec": {"source": {"targetRevision": "fix"}, "syncPolicy": {"automated": {}}}}`)
	}
	for name, stays := range map[string]bool{"a": true, "b": false} {
		s.until(s.control, name, func(live *unstructured.Unstructured) error {
			revision, _, _ := unstructured.NestedString(live.Object, "spec", "source", "targetRevision")
			_, automated, _ := unstructured.NestedMap(live.Object, "spec", "syncPolicy", "automated")
			if live.GetLabels()["from"] != "set" || revision != "fix" || automated != stays {
				return fmt.Errorf("it is %v with the labels %v", live.Object["spec"], live.GetLabels())
			}
			return nil
		})
	}
	s.patch(s.sets(s.control), "set", `{"spec": {"ignoreApplicationDifferences": [{"jqPathExpressions": ["spec["]}]}}`)
	s.told(s.control, "ErrorOccurred", "True", "spec.ignoreApplicationDifferences")
	s.patch(s.sets(s.control), "set", `{"spec": {"ignoreApplicationDifferences": null}}`)
	s.until(s.control, "a", func(live *unstructured.Unstructured) error {
		if revision, found, _ := unstructured.NestedString(live.Object, "spec", "source", "targetRevision"); found {
			return fmt.Errorf("the revision is %s", revision)
		}
		return nil
	})
}

// A set in the older form, with a patch whose project has no effect.
func TestOlderFormAndPatch(t *testing.T) {
	s := newScene(t)
	s.cluster.Apply(t, s.control, `
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: set}
spec:
  generators: [{list: {elements: [{cluster: one, values: {limit: "3"}}]}}]
  template:
    metadata: {name: '{{cluster}}-guestbook'}
    spec: {project: default, source: {repoURL: https://git/a, path: '{{ cluster }}/{{missing}}'}, destination: {namespace: x}}
  templatePatch: '{"spec": {"project": "other", "revisionHistoryLimit": {{values.limit}}}}'
`)
	s.awaits(s.control, "one-guestbook")
	live := s.until(s.control, "one-guestbook", func(*unstructured.Unstructured) error { return nil })
	limit, _, _ := unstructured.NestedInt64(live.Object, "spec", "revisionHistoryLimit")
	path, _, _ := unstructured.NestedString(live.Object, "spec", "source", "path")
	project, _, _ := unstructured.NestedString(live.Object, "spec", "project")
	if limit != 3 || path != "one/{{missing}}" || project != "default" {
		t.Errorf("the spec is %v", live.Object["spec"])
	}
}

// A controller that restarts finds everything as it should be, and writes
// nothing; nor does one that is asked to look again.
func TestNothingWritten(t *testing.T) {
	s := newScene(t)
	repository := s.git.Repository(t, "a", map[string]string{"apps/web/x.yaml": "", "apps/api/x.yaml": ""})
	s.gitSet(s.control, "default", repository)
	s.awaits(s.control, "api,web")
	s.settled(s.control, 2)
	s.told(s.control, "ResourcesUpToDate", "True", "")
	s.stop()
	s.written()
	s.start()
	s.askAgain(s.control)
	// A commit elsewhere is read though Git was asked a moment ago, and changes
	// nothing.
	repository.Commit(t, map[string]string{"README.md": "x"}, "elsewhere")
	before := len(s.git.Requests())
	s.askAgain(s.control)
	if len(s.git.Requests()) == before {
		t.Error("Git was not asked")
	}
	written := slices.DeleteFunc(s.written(), func(request string) bool {
		return strings.Contains(request, "/applicationsets/set?") // the annotation
	})
	if len(written) > 0 {
		t.Errorf("written: %v", written)
	}
}

// TestPoliciesAsDocumented: applicationsSync of Argo CD's page about what the
// controller may modify.
func TestPoliciesAsDocumented(t *testing.T) {
	for mode, want := range map[string]struct {
		left   string
		limits string // revisionHistoryLimit of b
	}{
		"sync":          {"b,c", "7"},
		"create-only":   {"a,b,c", "0"},
		"create-update": {"a,b,c", "7"},
		"create-delete": {"b,c", "0"},
	} {
		t.Run(mode, func(t *testing.T) {
			s := newScene(t)
			more := "  syncPolicy: {preserveResourcesOnDeletion: true, applicationsSync: " + mode + "}\n"
			s.listSet(s.control, "a,b", more)
			s.awaits(s.control, "a,b")
			s.patch(s.sets(s.control), "set", `{"spec": {"generators": [{"list": {"elements": [{"name": "b"}, {"name": "c"}]}}], "template": {"spec": {"revisionHistoryLimit": 7}}}}`)
			s.awaits(s.control, want.left)
			s.settled(s.control, int64(len(strings.Split(want.left, ","))))
			s.told(s.control, "ResourcesUpToDate", "True", "")
			live := s.until(s.control, "b", func(*unstructured.Unstructured) error { return nil })
			limit, _, _ := unstructured.NestedInt64(live.Object, "spec", "revisionHistoryLimit")
			if fmt.Sprint(limit) != want.limits {
				t.Errorf("b has the limit %d, want %s", limit, want.limits)
			}
		})
	}
}

// TestPreserveResourcesAsDocumented: an Application that is deleted keeps its
// objects, also if that was set only now.
func TestPreserveResourcesAsDocumented(t *testing.T) {
	s := newScene(t)
	s.listSet(s.control, "a,b", "")
	s.awaits(s.control, "a,b")
	s.listSet(s.control, "b", kept)
	s.awaits(s.control, "b")
	kubetest.WaitFor(t, s.applications(s.control), kube.Named("a"), patience, func(found []*unstructured.Unstructured) error {
		if len(found) > 0 {
			return fmt.Errorf("it is still there, with %v", found[0].GetFinalizers())
		}
		return nil
	})
	s.until(s.control, "b", func(live *unstructured.Unstructured) error {
		if len(live.GetFinalizers()) > 0 {
			return fmt.Errorf("finalizers %v", live.GetFinalizers())
		}
		return nil
	})
}

// A set that would make anything that is refused makes nothing, and deletes
// nothing.
func TestRefusedSet(t *testing.T) {
	s := newScene(t)
	s.listSet(s.control, "a,b", "")
	s.awaits(s.control, "a,b")
	s.listSet(s.control, "b,Not_A_Name", "")
	s.told(s.control, "ErrorOccurred", "True", "Not_A_Name")
	s.awaits(s.control, "a,b")
	s.patch(s.sets(s.control), "set", `{"spec": {"strategy": {"rollingSync": {"steps": [{"maxUpdate": "many"}]}}}}`)
	s.told(s.control, "ErrorOccurred", "True", "spec.strategy.rollingSync.steps[0].maxUpdate")
	s.awaits(s.control, "a,b")
	events := kubetest.WaitFor(t, s.cluster.Dynamic.Resource(eventResource()).Namespace(s.control), metav1.ListOptions{}, patience, func(found []*unstructured.Unstructured) error {
		if len(found) < 2 {
			return fmt.Errorf("%d Events", len(found))
		}
		return nil
	})
	if text := fmt.Sprint(events[0].Object["reason"]); !strings.HasPrefix(text, "Application") {
		t.Errorf("the reason is %s", text)
	}
	s.patch(s.sets(s.control), "set", `{"spec": {"strategy": null, "generators": [{"list": {"elements": [{"name": "b"}]}}]}}`)
	s.awaits(s.control, "b")
	s.told(s.control, "ErrorOccurred", "False", "")
}

// An Application without a controller is taken over, as Argo CD does; one of
// another set is not.
func TestAdopt(t *testing.T) {
	s := newScene(t)
	s.cluster.Apply(t, s.control, `
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: free, labels: {own: "1"}}
spec: {project: default, source: {repoURL: https://git/b, path: z}, destination: {namespace: z}}
---
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: foreign, finalizers: [example.com/stay]}
spec: {project: other, source: {repoURL: https://git/b, path: z}, destination: {namespace: z}}
---
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: taken, ownerReferences: [{apiVersion: argoproj.io/v1alpha1, kind: ApplicationSet, name: another, uid: 11111111-2222-3333-4444-555555555555, controller: true, blockOwnerDeletion: false}], finalizers: [example.com/stay]}
spec: {project: other, source: {repoURL: https://git/b, path: z}, destination: {namespace: z}}
`)
	s.listSet(s.control, "foreign,free,taken", kept)
	live := s.until(s.control, "free", func(live *unstructured.Unstructured) error {
		if path, _, _ := unstructured.NestedString(live.Object, "spec", "source", "path"); path != "x" || metav1.GetControllerOf(live) == nil {
			return errors.New("it is not taken over")
		}
		return nil
	})
	if live.GetLabels()["own"] != "" || live.GetLabels()["from"] != "set" {
		t.Errorf("labels %v", live.GetLabels())
	}
	s.told(s.control, "ResourcesUpToDate", "False", "application taken belongs to ApplicationSet another")
	s.told(s.control, "ParametersGenerated", "True", "")
	s.told(s.control, "ResourcesUpToDate", "False", "application foreign exists in project other, and not in default")
	for _, name := range []string{"taken", "foreign"} {
		project, _, _ := unstructured.NestedString(s.until(s.control, name, func(*unstructured.Unstructured) error { return nil }).Object, "spec", "project")
		if project != "other" {
			t.Errorf("the Application %s has project %s", name, project)
		}
		s.patch(s.applications(s.control), name, `{"metadata": {"finalizers": null}}`)
	}
}

// TestDeletionAsDocumented: the Applications of a set go with it, unless it has
// the finalizer and a policy that keeps them.
func TestDeletionAsDocumented(t *testing.T) {
	s := newScene(t)
	s.listSet(s.control, "a", kept)
	s.awaits(s.control, "a")
	must.Do(t, s.sets(s.control).Delete(t.Context(), "set", metav1.DeleteOptions{}))
	s.awaits(s.control, "")

	s.listSet(s.tenant, "a", "") // the project is not for that namespace: nothing is made
	s.told(s.tenant, "ErrorOccurred", "True", "spec.sourceNamespaces")
	s.listSet(s.control, "b", "  syncPolicy: {preserveResourcesOnDeletion: true, applicationsSync: create-update}\n")
	s.awaits(s.control, "b")
	s.patch(s.sets(s.control), "set", `{"metadata": {"finalizers": ["resources-finalizer.argocd.argoproj.io"]}}`)
	must.Do(t, s.sets(s.control).Delete(t.Context(), "set", metav1.DeleteOptions{}))
	kubetest.WaitFor(t, s.sets(s.control), kube.Named("set"), patience, func(found []*unstructured.Unstructured) error {
		if len(found) > 0 {
			return errors.New("the set is still there")
		}
		return nil
	})
	live := s.until(s.control, "b", func(*unstructured.Unstructured) error { return nil })
	if len(live.GetOwnerReferences()) > 0 || live.GetDeletionTimestamp() != nil {
		t.Errorf("it is %v", live)
	}
}
