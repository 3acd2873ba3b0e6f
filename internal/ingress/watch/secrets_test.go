package watch_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/watch"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

func secretManifest(name, kind, value string) string {
	return "---\napiVersion: v1\nkind: Secret\ntype: " + kind + "\nmetadata: {name: " + name + "}\nstringData: {key: " + value + "}\n"
}

// value is the data of a Secret in the Snapshot, or what stands for it.
func (r *reader) value(namespace, name string) string {
	body := r.secret(namespace, name)
	switch {
	case body == nil:
		return "absent"
	case body.Failure != nil:
		return "failure " + string(body.Failure.Reason)
	}
	return string(body.Data["key"])
}

// untilValue takes events until a Secret has a value.
func (r *reader) untilValue(namespace, name, want string) {
	r.t.Helper()
	r.until("the Secret "+name+" is "+want, func() bool { return r.value(namespace, name) == want })
}

// A Secret is read when it is wanted, again when it changes, and is gone when it
// is no longer wanted. Others are never read.
func TestSecretLife(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	cluster.Apply(t, namespace, secretManifest("one", "Opaque", "first")+secretManifest("other", "Opaque", "untouched"))
	sent := &kubetest.Gate{}
	r := read(t, cluster.Connect(t, sent.Option), watch.Options{})
	r.untilSynced()
	if asked := sent.Requests("/secrets"); len(asked) > 0 {
		t.Errorf("nothing is wanted, and sent %v", asked)
	}
	r.Want(secrets(namespace, "one"))
	if r.Synced() {
		t.Error("synced without what is wanted")
	}
	r.untilSynced()
	if got := r.value(namespace, "one"); got != "first" {
		t.Errorf("the Secret is %q, want first", got)
	}
	cluster.Apply(t, namespace, secretManifest("one", "Opaque", "second"))
	r.untilValue(namespace, "one", "second")

	must.Do(t, cluster.Client.CoreV1().Secrets(namespace).Delete(t.Context(), "one", deleted))
	r.untilValue(namespace, "one", "absent")
	cluster.Apply(t, namespace, secretManifest("one", "Opaque", "third"))
	r.untilValue(namespace, "one", "third")

	r.want()
	r.untilValue(namespace, "one", "absent")
	if asked := sent.Requests("/secrets/other"); len(asked) > 0 {
		t.Errorf("sent %v for a Secret that nobody wants", asked)
	}
	for _, line := range sent.Requests("/secrets?") {
		if !strings.Contains(line, "fieldSelector=type%21%3Dhelm.sh%2Frelease.v1") {
			t.Errorf("sent %s, which does not leave out the releases of Helm", line)
		}
	}
}

// What is wanted and cannot be had does not keep the rest waiting.
func TestSecretsThatCannotBeHad(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	cluster.Apply(t, namespace, secretManifest("good", "Opaque", "fine")+secretManifest("release", "helm.sh/release.v1", "big"))
	r := read(t, cluster.Connect(t), watch.Options{})
	r.Want(secrets(namespace, "good", "release", "missing", "..", "NoName", "a/b", "%2e"))
	r.untilSynced()
	tests := map[string]string{
		"good": "fine", "release": "failure Invalid",
		"missing": "absent", "..": "absent", "NoName": "absent", "a/b": "absent", "%2e": "absent",
	}
	for name, want := range tests {
		if got := r.value(namespace, name); got != want {
			t.Errorf("the Secret %s is %q, want %q", name, got, want)
		}
	}
	if body := r.secret(namespace, "release"); body != nil && body.Data != nil {
		t.Error("the data of a release of Helm is kept")
	}
	for _, event := range r.events {
		if event.Delete.Kind == snapshot.Secret {
			t.Errorf("there is an event for %v, which was never there", event.Delete)
		}
	}
}

// A Secret that is wanted again before its removal was delivered is not mixed up.
func TestSecretWantedAgain(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	cluster.Apply(t, namespace, secretManifest("one", "Opaque", "first"))
	r := read(t, cluster.Connect(t), watch.Options{})
	r.Want(secrets(namespace, "one"))
	r.untilValue(namespace, "one", "first")
	// The test does not take the event of its removal before it is wanted again and gone.
	r.want()
	must.Do(t, cluster.Client.CoreV1().Secrets(namespace).Delete(t.Context(), "one", deleted))
	r.Want(secrets(namespace, "one"))
	r.untilSynced()
	r.untilValue(namespace, "one", "absent")
}

// Secrets of the edge's own namespace are read besides, and nothing else of it.
func TestSecretsOfHome(t *testing.T) {
	cluster := kubetest.Shared(t)
	served, home, foreign := cluster.Namespace(t), cluster.Namespace(t), cluster.Namespace(t)
	for _, namespace := range []string{served, home, foreign} {
		cluster.Apply(t, namespace, secretManifest("one", "Opaque", "first"))
	}
	r := read(t, cluster.Connect(t), watch.Options{Namespaces: []string{served}, Home: home, NoClasses: true, NoNodes: true})
	var wanted []snapshot.Ref
	for _, namespace := range []string{served, home, foreign} {
		wanted = append(wanted, snapshot.Ref{Kind: snapshot.Secret, Namespace: namespace, Name: "one"})
	}
	r.Want(slices.Values(wanted))
	r.untilSynced()
	r.untilValue(home, "one", "first")
	if got := r.value(foreign, "one"); got != "failure Unreadable" {
		t.Errorf("the Secret of another namespace is %q", got)
	}
	cluster.Apply(t, home, secretManifest("one", "Opaque", "second"))
	r.untilValue(home, "one", "second")
	for _, event := range r.events {
		if service, is := event.Put.(*corev1.Service); is && service.Namespace == home {
			t.Errorf("the Service %s of the edge's own namespace is read", service.Name)
		}
	}
}

// Where Secrets may be read by name only, they are read again and again.
func TestSecretsByNameOnly(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	byName := strings.Replace(roleRules, "resources: [secrets], verbs: [list, watch, get]",
		"resources: [secrets], resourceNames: [one], verbs: [get]", 1)
	cluster.Apply(t, namespace, secretManifest("one", "Opaque", "first")+secretManifest("two", "Opaque", "hidden")+role(namespace, byName))
	options := watch.Options{Namespaces: []string{namespace}, NoClasses: true, NoNodes: true}
	r := read(t, cluster.Connect(t, kubetest.Account(namespace, "edge")), options, func(w *watch.Watcher) { w.Hurry(100 * time.Millisecond) })
	r.Want(secrets(namespace, "one", "two"))
	r.untilSynced()
	if got := r.value(namespace, "one"); got != "first" {
		t.Errorf("the Secret is %q, want first", got)
	}
	if got := r.value(namespace, "two"); got != "failure Unreadable" {
		t.Errorf("the Secret that may not be read is %q", got)
	}
	if r.Failures()["secrets"] == nil {
		t.Error("nothing says that Secrets may not be watched")
	}
	cluster.Apply(t, namespace, secretManifest("one", "Opaque", "second"))
	r.untilValue(namespace, "one", "second")
	// The right comes later, for both the reading and the watching.
	cluster.Apply(t, namespace, role(namespace, roleRules))
	r.untilValue(namespace, "two", "hidden")
	r.until("nothing fails", func() bool {
		r.touch(cluster, namespace)
		return len(r.Failures()) == 0
	})
}

// touch makes an event come, for a condition that no event reports.
func (r *reader) touch(cluster *kubetest.Cluster, namespace string) {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "touch-"},
		Spec:       corev1.ServiceSpec{ClusterIP: "None"},
	}
	must.Get(cluster.Client.CoreV1().Services(namespace).Create(r.t.Context(), service, metav1.CreateOptions{}))(r.t)
}

// A right that is taken away is believed after a while only, and what was read
// stays until then.
func TestSecretRightTakenAway(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	cluster.Apply(t, namespace, secretManifest("one", "Opaque", "first")+role(namespace, roleRules))
	options := watch.Options{Namespaces: []string{namespace}, NoClasses: true, NoNodes: true}
	r := read(t, cluster.Connect(t, kubetest.Account(namespace, "edge")), options, func(w *watch.Watcher) { w.Hurry(200 * time.Millisecond) })
	r.Want(secrets(namespace, "one"))
	r.untilSynced()
	cluster.Apply(t, namespace, role(namespace, strings.Replace(roleRules, "watch, get]", "watch]", 1)))
	cluster.Apply(t, namespace, secretManifest("one", "Opaque", "second"))
	r.until("the right is gone", func() bool { return r.value(namespace, "one") != "first" })
	if got := r.value(namespace, "one"); got == "second" {
		// The authorizer was slower than the change: change it once more.
		cluster.Apply(t, namespace, secretManifest("one", "Opaque", "third"))
		r.untilValue(namespace, "one", "failure Unreadable")
	} else if got != "failure Unreadable" {
		t.Errorf("the Secret is %q, want a failure", got)
	}
	cluster.Apply(t, namespace, role(namespace, roleRules))
	r.until("the Secret is read again", func() bool { return !strings.HasPrefix(r.value(namespace, "one"), "failure") })
}
