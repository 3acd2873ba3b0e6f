package join_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/internal/agent/join"
	"slipway.dev/slipway/internal/must"
)

// noTokens returns an error when a Secret still has a credential.
func noTokens(found *corev1.Secret) error {
	for key, value := range found.Data {
		if strings.Contains(string(value), "CANARY") {
			return fmt.Errorf("the key %s has a credential", key)
		}
	}
	return nil
}

// TestRevoked: a runtime whose credential was revoked reports it and stays out, also
// in a new process, until it gets another key.
func TestRevoked(t *testing.T) {
	w := newWorld(t)
	r, other := w.start(t, true), w.start(t, false)
	r.awaitPhase(t, join.Joined)
	w.platform.change(func(p *platform) { p.revoked = true })
	if status := r.awaitPhase(t, join.Revoked); !strings.Contains(status.Message, "new API key") || !r.Revoked() {
		t.Errorf("it says %q", status.Message)
	}
	other.awaitPhase(t, join.Revoked)
	w.event(t, join.Revoked)
	w.secret(t, noTokens)
	for _, each := range []*replica{r, other} {
		if token, err := each.AccessToken(t.Context()); err == nil {
			t.Errorf("there is the token %q", token)
		}
	}
	r.stop()
	r = w.start(t, true)
	r.awaitPhase(t, join.Revoked)
	w.platform.change(func(p *platform) {
		p.keys[otherKey] = true
		if len(p.registered) != 1 {
			t.Errorf("it has registered %d times", len(p.registered))
		}
	})
	w.writeKey(t, otherKey)
	r.awaitPhase(t, join.Joined)
	other.awaitPhase(t, join.Joined)
}

// TestRevokedAndAllowedAgain: deleting the Secret uses the present key.
func TestRevokedAndAllowedAgain(t *testing.T) {
	w := newWorld(t)
	r := w.start(t, true)
	r.awaitPhase(t, join.Joined)
	w.platform.change(func(p *platform) { p.revoked = true })
	r.awaitPhase(t, join.Revoked)
	must.Do(t, w.Client.CoreV1().Secrets(w.namespace).Delete(t.Context(), join.SecretName, metav1.DeleteOptions{}))
	r.awaitPhase(t, join.Joined)
}

// TestLostDatabase: a platform that does not know the credential any more is
// registered with again.
func TestLostDatabase(t *testing.T) {
	w := newWorld(t)
	w.start(t, true).awaitPhase(t, join.Joined)
	w.platform.change(func(p *platform) {
		p.refresh, p.previous, p.registered, p.beats = "", "", nil, nil
		clear(p.access)
	})
	w.platform.await(t, func(p *platform) string {
		if len(p.registered) != 1 || len(p.beats) == 0 {
			return fmt.Sprintf("%d registrations and %d heartbeats", len(p.registered), len(p.beats))
		}
		return ""
	})
}

var applications = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"}

// applicationsIn makes one Application of the runtime's own and one of a user, both
// with finalizers.
func (w *world) applicationsIn(t *testing.T) {
	t.Helper()
	w.DefineFiles(t, "../../../charts/gitops-runtime/crds/argoproj.io_applications.yaml")
	for name, internal := range map[string]string{"own": "true", "shop": "false"} {
		w.Apply(t, w.namespace, fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata:
  name: %s
  labels: {slipway.dev/internal: %q}
  finalizers: [resources-finalizer.argocd.argoproj.io]
spec:
  project: default
  source: {repoURL: https://example.com/a.git, path: .}
  destination: {namespace: a}
  syncPolicy: {automated: {selfHeal: true}}
`, name, internal))
	}
}

// TestUninstall: R113: the runtime's own Applications lose their finalizers and sync
// no more by themselves, the user's stay, the platform forgets the runtime, and it does not register again,
// also when a response is lost and in a new process.
func TestUninstall(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprint("answer lost ", lost), func(t *testing.T) {
			w := newWorld(t)
			w.applicationsIn(t)
			w.platform.change(func(p *platform) {
				p.cut = func(procedure string) (bool, bool) {
					cut := lost && procedure == "Unregister"
					lost = lost && !cut
					return false, cut
				}
			})
			cleaned := make(chan struct{}, 10)
			r := w.start(t, true, func(o *join.Options) {
				o.CleanSharedRepository = func(context.Context) error { cleaned <- struct{}{}; return nil }
			})
			r.awaitPhase(t, join.Joined)
			w.platform.change(func(p *platform) { p.uninstall = true })
			r.awaitPhase(t, join.Uninstalled)
			<-cleaned
			w.secret(t, noTokens)
			r.stop()
			r = w.start(t, true)
			r.awaitPhase(t, join.Uninstalled)
			for name, want := range map[string]int{"own": 0, "shop": 1} {
				app, err := w.Dynamic.Resource(applications).Namespace(w.namespace).Get(t.Context(), name, metav1.GetOptions{})
				if err != nil || len(app.GetFinalizers()) != want {
					t.Errorf("%s has the finalizers %v: %v", name, app.GetFinalizers(), err)
				}
				if _, automated, _ := unstructured.NestedMap(app.Object, "spec", "syncPolicy", "automated"); automated != (want == 1) {
					t.Errorf("%s syncs by itself: %t", name, automated)
				}
			}
			w.platform.change(func(p *platform) {
				if p.unregistered != 1 || len(p.registered) != 1 {
					t.Errorf("it took leave %d times and registered %d times", p.unregistered, len(p.registered))
				}
			})
		})
	}
}
