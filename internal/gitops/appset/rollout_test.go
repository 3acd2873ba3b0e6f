package appset_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// rollingSet is a set with an Application for each name, and a step for each
// first character of a name: a, then b.
func (s *scene) rollingSet(names, path, more string) {
	s.t.Helper()
	var elements []string
	for name := range strings.SplitSeq(names, ",") {
		elements = append(elements, "{name: "+name+", step: "+name[:1]+"}")
	}
	s.cluster.Apply(s.t, s.control, `
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: set}
spec:
  goTemplate: true
  generators: [{list: {elements: [`+strings.Join(elements, ", ")+`]}}]
  strategy:
    type: RollingSync
    rollingSync:
      steps:
      - matchExpressions: [{key: step, operator: In, values: [a]}]
      - matchExpressions: [{key: step, operator: In, values: [b]}]
        maxUpdate: 1
`+more+`
  syncPolicy: {preserveResourcesOnDeletion: true}
  template:
    metadata: {name: '{{.name}}', labels: {step: '{{.step}}'}}
    spec:
      project: default
      source: {repoURL: https://git/a, path: `+path+`}
      destination: {namespace: x}
      syncPolicy: {automated: {prune: true}, syncOptions: [PruneLast=true]}
`)
}

// compares reports a comparison of an Application with its spec, as the
// controller of Applications does.
func (s *scene) compares(name, sync, health, revision string) {
	s.t.Helper()
	live := s.until(s.control, name, func(*unstructured.Unstructured) error { return nil })
	source, _, _ := unstructured.NestedString(live.Object, "spec", "source", "path")
	s.patch(s.applications(s.control), name, `{"status": {"health": {"status": "`+health+`"}, "sync": {"status": "`+sync+`", "revision": "`+revision+`",
		"comparedTo": {"source": {"repoURL": "https://git/a", "path": "`+source+`"}, "destination": {"namespace": "x"}}}}}`)
}

// syncs carries out the sync that the set requested of an Application.
func (s *scene) syncs(name, health, revision string) {
	s.t.Helper()
	s.until(s.control, name, func(live *unstructured.Unstructured) error {
		prune, _, _ := unstructured.NestedBool(live.Object, "operation", "sync", "prune")
		options, _, _ := unstructured.NestedStringSlice(live.Object, "operation", "sync", "syncOptions")
		by, _, _ := unstructured.NestedString(live.Object, "operation", "initiatedBy", "username")
		if !prune || len(options) != 1 || by != "applicationset-controller" {
			return fmt.Errorf("the operation is %v", live.Object["operation"])
		}
		return nil
	})
	s.patch(s.applications(s.control), name, `{"operation": null, "status": {"operationState": {"phase": "Succeeded", "operation": {}, "startedAt": "`+time.Now().UTC().Add(time.Second).Format(time.RFC3339)+`"}}}`)
	s.compares(name, "Synced", health, revision)
}

// states waits until the set has these states of Applications.
func (s *scene) states(want string) *unstructured.Unstructured {
	s.t.Helper()
	return kubetest.WaitFor(s.t, s.sets(s.control), kube.Named("set"), patience, func(found []*unstructured.Unstructured) error {
		if len(found) == 0 {
			return errors.New("there is no set")
		}
		list, _, _ := unstructured.NestedSlice(found[0].Object, "status", "applicationStatus")
		var got []string
		for _, one := range list {
			state := one.(map[string]any)
			got = append(got, fmt.Sprintf("%v=%v", state["application"], state["status"]))
		}
		if text := strings.Join(got, " "); text != want {
			return fmt.Errorf("the states are %s, want %s", text, want)
		}
		return nil
	})[0]
}

// TestRollingSyncAsDocumented: syncs start step by step, at most maxUpdate of a
// step at once, by events alone; a restart in between changes nothing.
func TestRollingSyncAsDocumented(t *testing.T) {
	s := newScene(t)
	s.rollingSet("a1,a2,b1,b2", "x", "")
	for _, made := range s.awaits(s.control, "a1,a2,b1,b2") {
		if enabled, found, _ := unstructured.NestedBool(made.Object, "spec", "syncPolicy", "automated", "enabled"); enabled || !found {
			t.Errorf("%s syncs by itself: %v", made.GetName(), made.Object["spec"])
		}
	}
	for _, name := range []string{"a1", "a2", "b1", "b2"} {
		s.compares(name, "OutOfSync", "Missing", "c0ffee")
	}
	s.states("a1=Pending a2=Pending b1=Waiting b2=Waiting")
	s.told(s.control, "RolloutProgressing", "True", "rollout of step 1")
	s.syncs("a1", "Healthy", "c0ffee")
	s.states("a1=Healthy a2=Pending b1=Waiting b2=Waiting")
	s.stop()
	s.start()
	s.syncs("a2", "Degraded", "c0ffee")
	s.states("a1=Healthy a2=Progressing b1=Waiting b2=Waiting")
	s.compares("a2", "Synced", "Healthy", "c0ffee")
	set := s.states("a1=Healthy a2=Healthy b1=Pending b2=Waiting")
	first := must.Get(firstState(set))(t)
	if first["step"] != "1" || fmt.Sprint(first["targetRevisions"]) != "[c0ffee]" || first["message"] == "" || first["lastTransitionTime"] == nil {
		t.Errorf("the state is %v", first)
	}
	s.told(s.control, "RolloutProgressing", "True", "rollout of step 2")
	s.syncs("b1", "Healthy", "c0ffee")
	// One that a user deletes is made again, and rolled out.
	s.states("a1=Healthy a2=Healthy b1=Healthy b2=Pending")
	must.Do(t, s.applications(s.control).Delete(t.Context(), "b2", metav1.DeleteOptions{}))
	s.states("a1=Healthy a2=Healthy b1=Healthy b2=Waiting")
	s.compares("b2", "OutOfSync", "Missing", "c0ffee")
	s.syncs("b2", "Healthy", "c0ffee")
	s.states("a1=Healthy a2=Healthy b1=Healthy b2=Healthy")
	s.told(s.control, "RolloutProgressing", "False", "ApplicationSet Rollout has completed")
	// A change of the template begins again, and one of a step is synced by hand.
	s.rollingSet("a1,a2,b1,b2", "z", "")
	s.states("a1=Waiting a2=Waiting b1=Waiting b2=Waiting")
	for _, name := range []string{"a1", "a2"} {
		s.compares(name, "Synced", "Healthy", "c0ffee")
	}
	s.compares("b1", "OutOfSync", "Healthy", "c0ffee")
	s.states("a1=Healthy a2=Healthy b1=Pending b2=Waiting")
	// Without the strategy the states and the condition are removed, and syncs
	// are automated again.
	s.patch(s.sets(s.control), "set", `{"spec": {"strategy": null}}`)
	s.states("")
	s.until(s.control, "a1", func(live *unstructured.Unstructured) error {
		if _, found, _ := unstructured.NestedBool(live.Object, "spec", "syncPolicy", "automated", "enabled"); found {
			return errors.New("it does not sync by itself")
		}
		return nil
	})
}

func firstState(set *unstructured.Unstructured) (map[string]any, error) {
	list, _, err := unstructured.NestedSlice(set.Object, "status", "applicationStatus")
	if err != nil || len(list) == 0 {
		return nil, errors.New("there is no state")
	}
	return list[0].(map[string]any), nil
}

// TestReverseDeletionAsDocumented: Applications of a deleted set go from the last
// step to the first.
func TestReverseDeletionAsDocumented(t *testing.T) {
	s := newScene(t)
	s.rollingSet("a1,b1", "x", "    deletionOrder: Reverse")
	s.awaits(s.control, "a1,b1")
	s.patch(s.applications(s.control), "b1", `{"metadata": {"finalizers": ["example.com/stay"]}}`)
	kubetest.WaitFor(t, s.sets(s.control), kube.Named("set"), patience, func(found []*unstructured.Unstructured) error {
		if len(found) == 0 || len(found[0].GetFinalizers()) == 0 {
			return errors.New("the set has no finalizer")
		}
		return nil
	})
	must.Do(t, s.sets(s.control).Delete(t.Context(), "set", metav1.DeleteOptions{}))
	s.awaits(s.control, "a1") // b1 is being deleted
	s.patch(s.applications(s.control), "b1", `{"metadata": {"finalizers": null}}`)
	s.awaits(s.control, "")
	kubetest.WaitFor(t, s.sets(s.control), kube.Named("set"), patience, func(found []*unstructured.Unstructured) error {
		if len(found) > 0 {
			return errors.New("the set is still there")
		}
		return nil
	})
}
