package status

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/programs"
)

func faults(reason refusal.Reason, field string, messages ...string) []refusal.Refusal {
	var refusals []refusal.Refusal
	for _, message := range messages {
		refusals = append(refusals, refusal.Refusal{Field: field, Reason: reason, Message: message})
	}
	return refusals
}

// A refusal is one Event however often it is seen. Another one is another Event,
// and so is that there is none any more.
func TestRefusalsBecomeEvents(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	made := makeIngress(t, cluster, namespace, "shop", "ours")
	r := start(t, cluster, namespace, Options{}, func(w *Writer) { w.Ingress(made, true, engine.Condition{}) })
	shop := snapshot.Ref{Kind: snapshot.Ingress, Namespace: namespace, Name: "shop"}
	const (
		first    = "Warning RefusedInvalid spec.rules[0]: it is blue"
		second   = "Warning RefusedNotFound spec.rules[1]: it is not there"
		accepted = "Normal Accepted nothing is refused any more"
	)
	blue := faults(refusal.Invalid, "spec.rules[0]", "it is blue")
	for range 3 {
		r.Refusals(shop, blue)
	}
	event := waitEvents(t, cluster, namespace, "shop", first)[0]
	if event.Regarding.UID != made.UID || event.Regarding.APIVersion != "networking.k8s.io/v1" || event.ReportingController != reportingController {
		t.Errorf("got %+v", event)
	}
	both := append(blue, faults(refusal.NotFound, "spec.rules[1]", "it is not there")...)
	r.Refusals(shop, both)
	waitEvents(t, cluster, namespace, "shop", first, second)
	r.Refusals(shop, both[1:])
	r.Refusals(shop, nil)
	waitEvents(t, cluster, namespace, "shop", first, second, accepted)
	r.Refusals(shop, nil)
	// The same one again is counted on.
	r.Refusals(shop, blue)
	kubetest.WaitFor(t, cluster.Client.EventsV1().Events(namespace), metav1.ListOptions{FieldSelector: "reason=RefusedInvalid"}, patience,
		func(events []*eventsv1.Event) error {
			if len(events) != 1 || events[0].Series == nil || events[0].Series.Count != 2 {
				return fmt.Errorf("%d Events that were not counted on", len(events))
			}
			return nil
		})
	programs.Until(t, "each was written once", func() bool { return r.count("events_total", resultSent) == 4 })
	if failed := r.count("events_total", resultFailed); failed != 0 || r.writes(resultWritten) != 0 {
		t.Errorf("%d Events failed, and %d status writes without an address", failed, r.writes(resultWritten))
	}
}

// Each kind of object is named so that its Events are found.
func TestEventsRegardEachKind(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	r := start(t, cluster, namespace, Options{PublishedService: namespace + "/published"})
	r.Published(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "published", UID: "1-2-3"}})
	for kind, want := range map[snapshot.Kind]string{
		snapshot.Service:                 "v1 Service",
		snapshot.EndpointSlice:           "v1 Service",
		snapshot.Secret:                  "v1 Secret",
		snapshot.Ingress:                 "networking.k8s.io/v1 Ingress",
		snapshot.Middleware:              "slipway.dev/v1alpha1 Middleware",
		snapshot.TraefikMiddleware:       "traefik.io/v1alpha1 Middleware",
		snapshot.TraefikServersTransport: "traefik.io/v1alpha1 ServersTransport",
	} {
		name := strings.ToLower(string(kind))
		r.Refusals(snapshot.Ref{Kind: kind, Namespace: namespace, Name: name}, faults(refusal.Unsupported, "", "no"))
		event := waitEvents(t, cluster, namespace, name, "Warning RefusedUnsupported no")[0]
		if got := event.Regarding.APIVersion + " " + event.Regarding.Kind; got != want {
			t.Errorf("%s: got %s, want %s", kind, got, want)
		}
	}
	r.Refusals(snapshot.Ref{Kind: snapshot.Service, Namespace: namespace, Name: "published"}, faults(refusal.Unsupported, "", "no"))
	if event := waitEvents(t, cluster, namespace, "published", "Warning RefusedUnsupported no")[0]; event.Regarding.UID != "1-2-3" {
		t.Errorf("got UID %q", event.Regarding.UID)
	}
	// What no Event can be about is given up, and holds up nothing.
	r.Refusals(snapshot.Ref{Kind: snapshot.Secret, Namespace: namespace, Name: "no name"}, faults(refusal.Invalid, "", "no"))
	r.Refusals(snapshot.Ref{Kind: snapshot.Secret, Namespace: "no-such-namespace", Name: "any"}, faults(refusal.Invalid, "", "no"))
	programs.Until(t, "two are given up", func() bool { return r.count("events_total", resultFailed) == 2 })
	class := snapshot.Ref{Kind: snapshot.IngressClass, Name: namespace}
	r.Refusals(class, faults(refusal.Invalid, "", "no"))
	waitEvents(t, cluster, metav1.NamespaceDefault, namespace, "Warning RefusedInvalid no")
}

// What the leader could not get has Events until it could, and is forgotten with the
// lead; what runs beside the leader ends before another one leads.
func TestMissedBecomesEvents(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	shop := snapshot.Ref{Kind: snapshot.Service, Namespace: namespace, Name: "shop"}
	missing := refusal.New("spec", refusal.Conflict, "nobody gives it")
	led, ended := make(chan struct{}), make(chan struct{})
	w := (*Writer)(nil)
	first := start(t, cluster, namespace, Options{WhileLeading: func(ctx context.Context) {
		w.SetFetchFailure(shop, "one", missing)
		close(led)
		<-ctx.Done()
		close(ended)
	}}, func(made *Writer) {
		w = made
		w.SetFetchFailure(shop, "early", missing) // who does not lead has nothing to tell
	})
	<-led
	const told, accepted = "Warning RefusedConflict spec: nobody gives it", "Normal Accepted nothing is refused any more"
	waitEvents(t, cluster, namespace, "shop", told)
	noted := func() bool {
		first.mu.Lock()
		defer first.mu.Unlock()
		return first.recorders[shop] != nil && first.recorders[shop].reported
	}
	programs.Until(t, "it is noted", noted)
	first.SetFetchFailure(shop, "one", nil)
	first.SetFetchFailure(shop, "other", nil)
	waitEvents(t, cluster, namespace, "shop", told, accepted)
	first.SetFetchFailure(shop, "one", missing)
	programs.Until(t, "it is noted again", noted)
	first.stop()
	<-ended
	programs.Until(t, "who does not lead any more has forgotten it", func() bool { return !noted() && !first.leading.Load() })
}

// A new leader reports the refusals again, which is still the same Event.
func TestNewLeaderTellsAgain(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	shop := snapshot.Ref{Kind: snapshot.Service, Namespace: namespace, Name: "shop"}
	tell := func(w *Writer) { w.Refusals(shop, faults(refusal.Invalid, "spec", "no")) }
	first := start(t, cluster, namespace, Options{}, tell)
	waitEvents(t, cluster, namespace, "shop", "Warning RefusedInvalid spec: no")
	second := start(t, cluster, namespace, Options{}, tell)
	first.stop()
	programs.Until(t, "the second tells it", func() bool { return second.count("events_total", resultSent) == 1 })
	waitEvents(t, cluster, namespace, "shop", "Warning RefusedInvalid spec: no")
	second.Refusals(shop, nil)
	waitEvents(t, cluster, namespace, "shop", "Warning RefusedInvalid spec: no", "Normal Accepted nothing is refused any more")
}
