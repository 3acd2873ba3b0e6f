package appproxy_test

import (
	"context"
	"testing"

	"connectrpc.com/connect"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// TestWatchEvents: the stream begins with the events of an object and goes on with
// new ones; it has no events of other objects.
func TestWatchEvents(t *testing.T) {
	w := newWorld(t)
	w.growShop(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	settings := must.Get(w.Client.CoreV1().ConfigMaps(w.control).Get(ctx, "settings", metav1.GetOptions{}))(t)
	tell := func(name, reason string, about corev1.ObjectReference) {
		t.Helper()
		must.Get(w.Client.CoreV1().Events(w.control).Create(ctx, &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.control}, InvolvedObject: about,
			Reason: reason, Message: "said by a test", Type: corev1.EventTypeNormal, LastTimestamp: metav1.Now(), Count: 1,
		}, metav1.CreateOptions{}))(t)
	}
	about := corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: w.control, Name: "settings", UID: settings.UID}
	other := about
	other.UID = "somebody-else"
	tell("first", "First", about)
	stream := must.Get(w.apps(t).WatchEvents(ctx, connect.NewRequest(&runtimev1.WatchEventsRequest{
		Ref: shopRef(), Object: &runtimev1.ObjectRef{Kind: "ConfigMap", Namespace: w.control, Name: "settings"},
	})))(t)
	defer stream.Close()
	// next is the reasons of the next list.
	next := func() (reasons []string) {
		t.Helper()
		for stream.Receive() {
			if stream.Msg().GetList() == nil {
				continue // a sign of life
			}
			for _, event := range stream.Msg().GetList().GetEvents() {
				reasons = append(reasons, event.GetReason())
			}
			return reasons
		}
		t.Fatal(stream.Err())
		return nil
	}
	if got := next(); len(got) != 1 || got[0] != "First" {
		t.Fatalf("at first there is %v", got)
	}
	tell("elsewhere", "Elsewhere", other)
	tell("second", "Second", about)
	if got := next(); len(got) != 2 {
		t.Fatalf("after another there is %v", got)
	}
}

// TestWatchEventsOfNothing: there is nothing to follow of what an Application does not have.
func TestWatchEventsOfNothing(t *testing.T) {
	w := newWorld(t)
	w.growShop(t)
	stream := must.Get(w.apps(t).WatchEvents(t.Context(), connect.NewRequest(&runtimev1.WatchEventsRequest{
		Ref: shopRef(), Object: &runtimev1.ObjectRef{Kind: "ConfigMap", Namespace: w.control, Name: "theirs"},
	})))(t)
	defer stream.Close()
	if stream.Receive() || connect.CodeOf(stream.Err()) != connect.CodeNotFound {
		t.Errorf("the events of somebody else's object: %v", stream.Err())
	}
}
