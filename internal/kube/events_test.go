package kube_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

var testReporter = kube.Reporter{Controller: "slipway.dev/test", Instance: "one"}

func eventsAbout(t *testing.T, cluster *kubetest.Cluster, namespace, name string, number int) []*eventsv1.Event {
	t.Helper()
	return kubetest.WaitFor(t, cluster.Client.EventsV1().Events(namespace),
		metav1.ListOptions{FieldSelector: "regarding.name=" + name}, 20*time.Second,
		func(events []*eventsv1.Event) error {
			if len(events) != number {
				return fmt.Errorf("%d of %d Events", len(events), number)
			}
			return nil
		})
}

// The same notice is one Event, also from another replica; another one is
// another Event.
func TestAnnounceOnce(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	notice := kube.Notice{
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: namespace, Name: "thing", UID: "1-2-3"},
		Warning:   true, Reason: "RefusedInvalid", Action: "Route", Note: "data.a: it is blue", Times: 1,
	}
	announce := func(reporter kube.Reporter, notice kube.Notice) {
		t.Helper()
		must.Do(t, cluster.Announce(t.Context(), reporter, notice))
	}
	announce(testReporter, notice)
	event := eventsAbout(t, cluster, namespace, "thing", 1)[0]
	if event.Type != corev1.EventTypeWarning || event.Reason != "RefusedInvalid" || event.Note != "data.a: it is blue" ||
		event.Regarding.UID != "1-2-3" || event.ReportingController != "slipway.dev/test" || event.Series != nil {
		t.Errorf("got %+v", event)
	}
	announce(kube.Reporter{Controller: "slipway.dev/test", Instance: "two"}, notice)
	notice.Times = 3
	announce(testReporter, notice)
	event = eventsAbout(t, cluster, namespace, "thing", 1)[0]
	if event.Series == nil || event.Series.Count != 3 {
		t.Errorf("got series %+v, want that it was told three times", event.Series)
	}
	notice.Note, notice.Warning = "all is well", false
	announce(testReporter, notice)
	eventsAbout(t, cluster, namespace, "thing", 2)
}

// Texts and names of any length are taken.
func TestAnnounceLengths(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	for _, test := range []struct{ name, note string }{
		{strings.Repeat("a", 253), "short"},
		{strings.Repeat("a", 235) + "." + strings.Repeat("b", 17), "short"},
		{"short", strings.Repeat("é", 2000)},
		{"broken", "\xff\xfe not text"},
	} {
		notice := kube.Notice{
			Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: namespace, Name: test.name},
			Reason:    "Long", Action: "Route", Note: test.note,
		}
		if err := cluster.Announce(t.Context(), testReporter, notice); err != nil {
			t.Error(err)
			continue
		}
		event := eventsAbout(t, cluster, namespace, test.name, 1)[0]
		if len(event.Note) > kube.NoteLimit || !utf8.ValidString(event.Note) {
			t.Errorf("got a note of %d bytes: %q", len(event.Note), event.Note)
		}
	}
}

// Events of what has no namespace are where kubectl looks for them.
func TestAnnounceClusterScope(t *testing.T) {
	cluster := kubetest.Shared(t)
	name := cluster.Namespace(t)
	err := cluster.Announce(t.Context(), testReporter, kube.Notice{
		Regarding: corev1.ObjectReference{APIVersion: "networking.k8s.io/v1", Kind: "IngressClass", Name: name},
		Reason:    "Refused", Action: "Route", Note: "text",
	})
	must.Do(t, err)
	eventsAbout(t, cluster, metav1.NamespaceDefault, name, 1)
}

func TestAnnounceNowhere(t *testing.T) {
	cluster := kubetest.Shared(t)
	err := cluster.Announce(t.Context(), testReporter, kube.Notice{
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "no-such-namespace", Name: "thing"},
		Reason:    "Refused", Action: "Route", Note: "text",
	})
	if err == nil || !strings.Contains(err.Error(), "ConfigMap no-such-namespace/thing") {
		t.Errorf("got %v, want an error that names the object", errors.Unwrap(err))
	}
}
