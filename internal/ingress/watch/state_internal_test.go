package watch

import (
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/internal/ingress/snapshot"
)

// alone is a Watcher without a cluster.
func alone() *Watcher {
	w := &Watcher{
		timing: defaultTiming(), queue: newQueue(100), failures: newFailures(slog.New(slog.DiscardHandler)),
		kinds: map[snapshot.Kind]snapshot.KindState{},
	}
	w.secrets = newSecretReader(w)
	return w
}

// events takes what Next would return.
func (w *Watcher) events() []Event {
	var events []Event
	for _, it := range w.queue.drain() {
		if !it.silent {
			events = append(events, it.event)
		}
		if it.delivered != nil {
			it.delivered()
		}
	}
	return events
}

// The removal of a Secret that was not delivered yet is delivered even when the Secret is
// wanted again and found to be missing meanwhile.
func TestForgottenAndMissing(t *testing.T) {
	w := alone()
	k, at := w.secrets, name{"shop", "tls"}
	k.want(at)
	k.publish(at, k.wanted[at], &snapshot.SecretBody{Namespace: "shop", Name: "tls", Version: "1"})
	if got := w.events(); len(got) != 1 || got[0].Put == nil || !k.allDelivered() {
		t.Fatalf("got %v, settled %t, want the Secret", got, k.allDelivered())
	}
	k.unwant(at)
	k.want(at)
	if k.allDelivered() {
		t.Error("settled before it was read again")
	}
	k.drop(at, k.wanted[at])
	if got := w.events(); len(got) != 1 || got[0].Delete != refOf(at) {
		t.Errorf("got %v, want the end of the Secret", got)
	}
	if !k.allDelivered() {
		t.Error("not settled")
	}
}

// Of two versions that no reader took, the newer one is delivered.
func TestNewestSecretWins(t *testing.T) {
	w := alone()
	k, at := w.secrets, name{"shop", "tls"}
	k.want(at)
	for _, version := range []string{"1", "2", "2"} {
		k.publish(at, k.wanted[at], &snapshot.SecretBody{Namespace: "shop", Name: "tls", Version: version})
	}
	got := w.events()
	if len(got) != 1 || got[0].Put.(*snapshot.SecretBody).Version != "2" {
		t.Errorf("got %v, want version 2 alone", got)
	}
	for version, news := range map[string]bool{"1": false, "2": false, "3": true, "10": true, "odd": true} {
		if k.wanted[at].isNewer(version) != news {
			t.Errorf("version %s is news: %t, want %t", version, !news, news)
		}
	}
}

var (
	noKind  = apierrors.NewNotFound(schema.GroupResource{Resource: "middlewares"}, "")
	noRight = apierrors.NewForbidden(schema.GroupResource{Resource: "middlewares"}, "", errors.New("no right"))
)

func (w *Watcher) testParts(t *testing.T, namespaces ...string) map[string]*namespacedKind {
	s := &kindStatus{kind: snapshot.Middleware, watcher: w, of: map[string]snapshot.KindState{}}
	parts := map[string]*namespacedKind{}
	for _, namespace := range namespaces {
		s.of[namespace] = snapshot.KindPending
		parts[namespace] = &namespacedKind{namespace: namespace, status: s, mirror: newMirror(t.Context(), w.queue, s.kind), timing: w.timing}
		parts[namespace].mirror.listed = parts[namespace].known
	}
	return parts
}

// The state of a kind is delivered when it changes, and comes after the objects.
func TestStandingOfKind(t *testing.T) {
	w := alone()
	parts := w.testParts(t, "a", "b")
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetNamespace("a")
	object.SetName("one")
	object.SetResourceVersion("1")
	steps := []struct {
		name string
		do   func()
		want []string
	}{
		{"known in a", func() { _ = parts["a"].mirror.Replace([]any{object}, "") }, []string{"put"}},
		{"forbidden in b", func() { parts["b"].observe(noRight) }, []string{"known"}},
		{"still forbidden in b", func() { parts["b"].observe(noRight) }, nil},
		{"known in b", func() { parts["b"].known() }, nil},
		{"denied once", func() { parts["a"].observe(noKind) }, nil},
		{"back", func() { parts["a"].observe(nil) }, nil},
		{"denied again", func() { parts["a"].observe(noKind) }, nil},
		{"denied twice", func() { parts["a"].observe(noKind) }, nil},
		{"denied for good", func() { parts["a"].observe(noKind) }, []string{"delete", "missing"}},
		{"back again", func() { _ = parts["a"].mirror.Replace([]any{object}, "") }, []string{"put", "known"}},
	}
	words := map[snapshot.KindState]string{snapshot.KindKnown: "known", snapshot.KindMissing: "missing", snapshot.KindForbidden: "forbidden"}
	for _, step := range steps {
		step.do()
		var got []string
		for _, event := range w.events() {
			switch {
			case event.Put != nil:
				got = append(got, "put")
			case event.Delete.Kind != "":
				got = append(got, "delete")
			default:
				got = append(got, words[event.State])
			}
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("%s: got %v, want %v", step.name, got, step.want)
		}
	}
	if w.kinds[snapshot.Middleware] != snapshot.KindKnown {
		t.Errorf("what was told last is %d", w.kinds[snapshot.Middleware])
	}
}

// Where a kind is not to be had, it is asked for rarely.
func TestDeniedKindIsAskedForRarely(t *testing.T) {
	w := alone()
	parts := w.testParts(t, "")
	if pause := parts[""].observe(noKind); pause < w.timing.deniedRetry || pause > 2*w.timing.deniedRetry {
		t.Errorf("the pause is %s, want about %s", pause, w.timing.deniedRetry)
	}
	parts[""].known()
	parts[""].observe(nil)
	if pause := parts[""].observe(noKind); pause > time.Second {
		t.Errorf("the pause of a kind that was there a moment ago is %s", pause)
	}
}
