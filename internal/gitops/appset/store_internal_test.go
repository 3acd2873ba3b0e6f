package appset

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

func object(uid, version string, generation int64) *unstructured.Unstructured {
	made := &unstructured.Unstructured{Object: map[string]any{}}
	made.SetNamespace("argocd")
	made.SetName("a")
	made.SetUID(types.UID(uid))
	made.SetResourceVersion(version)
	made.SetGeneration(generation)
	yes := true
	made.SetOwnerReferences([]metav1.OwnerReference{{Kind: v1alpha1.KindApplicationSet, Name: "set", UID: "set", Controller: &yes}})
	return made
}

// The response to our own request can come after an event that is newer.
func TestBookSets(t *testing.T) {
	b := newStore()
	name := types.NamespacedName{Namespace: "argocd", Name: "a"}
	if b.putSet(object("1", "5", 1), fromWrite) {
		t.Error("an answer brings a set that is gone")
	}
	if !b.putSet(object("1", "5", 1), fromWatch) {
		t.Error("a new set is not looked at")
	}
	b.take(name)
	if !b.putSet(object("1", "9", 2), fromWatch) {
		t.Error("a set that changed is not looked at")
	}
	if b.putSet(object("1", "8", 1), fromWrite) {
		t.Error("an older answer counts")
	}
	if taken, _ := b.take(name); taken.object.GetGeneration() != 2 || !taken.due {
		t.Errorf("the set has generation %d, due: %t", taken.object.GetGeneration(), taken.due)
	}
	if b.putSet(object("1", "10", 2), fromWrite) {
		t.Error("a status that we wrote is news")
	}
	if !b.putSet(object("2", "11", 2), fromWatch) {
		t.Error("another set of the name is not looked at")
	}
}

func TestBookApplications(t *testing.T) {
	b := newStore()
	b.putSet(object("set", "1", 1), fromWatch)
	set := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "argocd", "uid": "set"}}}
	labelled := func(version, label string) *unstructured.Unstructured {
		made := object("7", version, 1)
		made.SetLabels(map[string]string{"l": label})
		return made
	}
	steps := []struct {
		do   func() ([]types.NamespacedName, change)
		want change
	}{
		{func() ([]types.NamespacedName, change) { return b.putApplication(labelled("5", "a"), fromWrite) }, contentNew},
		{func() ([]types.NamespacedName, change) { return b.putApplication(labelled("5", "a"), fromWatch) }, nothingNew},
		{func() ([]types.NamespacedName, change) { return b.putApplication(labelled("8", "b"), fromWatch) }, contentNew},
		{func() ([]types.NamespacedName, change) { return b.putApplication(labelled("7", "a"), fromWrite) }, nothingNew},
	}
	for i, step := range steps {
		if names, got := step.do(); got != step.want || got == contentNew && len(names) != 1 {
			t.Errorf("step %d: %v %v, want %v", i, names, got, step.want)
		}
	}
	if owned := b.owned(set); len(owned) != 1 || owned["a"].version != "8" {
		t.Errorf("owned %v", owned)
	}
	name := types.NamespacedName{Namespace: "argocd", Name: "a"}
	if names := b.dropApplication(name); len(names) != 1 {
		t.Errorf("its set is not told: %v", names)
	}
	if _, what := b.putApplication(labelled("9", "c"), fromWrite); what != nothingNew || len(b.owned(set)) != 0 {
		t.Error("an answer brings an Application back that is gone")
	}
	foreign := object("8", "10", 1)
	foreign.SetOwnerReferences(nil)
	if _, what := b.putApplication(foreign, fromWatch); what != nothingNew || len(b.owned(set)) != 0 {
		t.Error("an Application that no set has made is noted")
	}
}

// What a worker gives is checked: it could have been taken over.
func TestDecodeGenerated(t *testing.T) {
	c := &Controller{options: ControllerOptions{ControlNamespace: "argocd"}}
	application := func(namespace, project string) []byte {
		return []byte(`{"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "a", "namespace": "` + namespace + `"},
			"spec": {"project": "` + project + `", "source": {"repoURL": "https://git/a", "path": "x"}, "destination": {"namespace": "x"}}}`)
	}
	for _, tt := range []struct {
		namespace, project string
		text               []byte
		want               string
	}{
		{"team", "team", application("team", "team"), ""},
		{"argocd", "{{.project}}", application("argocd", "any"), ""},
		{"argocd", "team", application("argocd", "team"), ""},
		{"argocd", "team", application("argocd", "any"), "project"},
		{"team", "team", application("argocd", "team"), "namespace"},
		{"team", "team", application("team", "other"), "project"},
		{"team", "{{.project}}", application("team", "team"), "project"},
		{"team", "team", []byte("{"), "read"},
		{"argocd", "team", []byte(`{"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "a", "namespace": "argocd"}, "spec": {}}`), "spec"},
	} {
		set := &v1alpha1.ApplicationSet{}
		set.Namespace = tt.namespace
		set.Spec.Template.Spec.Project = tt.project
		_, err := c.decodeGenerated(set, tt.text)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("in %s %s: %v", tt.namespace, tt.text, err)
		}
	}
}
