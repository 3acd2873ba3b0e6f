package watch_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/watch"
	"slipway.dev/slipway/internal/kube/kubetest"
)

const web = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: "slipway.dev/demo:v1"}]}}
`

// podOf waits for the Pod of the Deployment web.
func podOf(t *testing.T, cluster *kubetest.Cluster, namespace string) *corev1.Pod {
	t.Helper()
	return kubetest.WaitFor(t, cluster.Client.CoreV1().Pods(namespace), metav1.ListOptions{}, patience, func(pods []*corev1.Pod) error {
		if len(pods) == 0 {
			return errors.New("there is no Pod")
		}
		return nil
	})[0]
}

// Pods and ReplicaSets are watched only while they are wanted, without their spec, and are
// forgotten afterwards.
func TestOwners(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	cluster.Apply(t, namespace, web)
	pod := podOf(t, cluster, namespace)
	var gate kubetest.Gate
	r := read(t, cluster.Connect(t, gate.Option), watch.Options{})
	r.untilSynced()
	owners := snapshot.Ref{Kind: snapshot.Pod, Namespace: namespace}
	known := func() bool { return r.snapshot.View().Owners(namespace) == snapshot.KindKnown }
	if sent := append(gate.Requests("/pods"), gate.Requests("/replicasets")...); len(sent) > 0 || known() {
		t.Errorf("read before they were wanted: %v", sent)
	}
	for range 2 {
		r.want(owners)
		if r.Synced() {
			t.Error("synced without the Pods")
		}
		r.untilSynced()
		found := r.snapshot.View().Owned(snapshot.Pod, namespace, pod.Name)
		if !known() || found == nil || found.UID != pod.UID || found.Controller.Kind != "ReplicaSet" {
			t.Fatalf("the Pod is %+v", found)
		}
		set := r.snapshot.View().Owned(snapshot.ReplicaSet, namespace, found.Controller.Name)
		if set == nil || set.UID != found.Controller.UID || set.Controller.Kind != "Deployment" || set.Controller.Name != "web" {
			t.Errorf("the ReplicaSet is %+v", set)
		}
		r.want()
		r.until("they are forgotten", func() bool {
			view := r.snapshot.View()
			return !known() && view.Owned(snapshot.Pod, namespace, pod.Name) == nil && view.Owned(snapshot.ReplicaSet, namespace, found.Controller.Name) == nil
		})
		if !r.Synced() {
			t.Error("not synced without anything wanted")
		}
	}
	// Wanted again before the watch has ended, and unwanted before it began.
	for range 20 {
		r.want(owners)
		r.want()
	}
	r.want(owners)
	r.until("they are known again", func() bool { return known() && r.snapshot.View().Owned(snapshot.Pod, namespace, pod.Name) != nil })
	for _, line := range append(gate.Requests("/pods"), gate.Requests("/replicasets")...) {
		if !strings.Contains(line, "/namespaces/"+namespace+"/") {
			t.Errorf("a request beyond the namespace: %s", line)
		}
	}
}

// An edge without the right goes on without.
func TestOwnersForbidden(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	cluster.Apply(t, namespace, web+role(namespace, roleRules))
	options := watch.Options{Namespaces: []string{namespace}, NoClasses: true, NoNodes: true}
	r := read(t, cluster.Connect(t, kubetest.Account(namespace, "edge")), options, func(w *watch.Watcher) { w.Hurry(200 * time.Millisecond) })
	r.want(snapshot.Ref{Kind: snapshot.Pod, Namespace: namespace})
	r.untilSynced()
	if state := r.snapshot.View().Owners(namespace); state != snapshot.KindForbidden {
		t.Errorf("the state is %d, want forbidden", state)
	}
	cluster.Apply(t, namespace, role(namespace, roleRules+"- {apiGroups: [\"\", apps], resources: [pods, replicasets], verbs: [list, watch]}\n"))
	r.until("they are known", func() bool { return r.snapshot.View().Owners(namespace) == snapshot.KindKnown })
}
