package appset_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// commented returns a scene with a preview that has a comment.
func commented(t *testing.T, numbers ...int64) *previews {
	t.Helper()
	p := newPreviews(t, numbers...)
	var names []string
	for _, number := range numbers {
		names = append(names, fmt.Sprint("pr-", number))
	}
	p.awaits(p.control, strings.Join(names, ","))
	p.ready("pr-1", strings.Repeat("a", 40), "Healthy")
	p.awaitComment(1, "is at <https://pr-1.preview.example.com>")
	return p
}

// deleteSet deletes the set, and does not wait until it is gone.
func (p *previews) deleteSet(propagation metav1.DeletionPropagation) {
	p.t.Helper()
	must.Do(p.t, p.sets(p.control).Delete(p.t.Context(), "set", metav1.DeleteOptions{PropagationPolicy: &propagation}))
}

// awaitSetGone waits until there is no set.
func (p *previews) awaitSetGone() {
	p.t.Helper()
	kubetest.WaitFor(p.t, p.sets(p.control), kube.Named("set"), patience, func(found []*unstructured.Unstructured) error {
		if len(found) > 0 {
			return fmt.Errorf("the set is still there, with the finalizers %v", found[0].GetFinalizers())
		}
		return nil
	})
}

// TestPreviewSetDeletedWhileDown: the comments of a set that is deleted while no
// controller runs change once one does, before its Applications are deleted.
func TestPreviewSetDeletedWhileDown(t *testing.T) {
	p := commented(t, 1, 3)
	p.stop()
	p.deleteSet(metav1.DeletePropagationBackground)
	p.start()
	p.awaitSetGone()
	p.awaitComment(1, removedText)
	if got := p.comments(3); len(got) > 0 {
		t.Errorf("a preview that was never ready has %q", got)
	}
}

// TestPreviewSetDeletedWithoutHost: a set whose comments cannot be changed is deleted
// all the same, and an Event has the reason.
func TestPreviewSetDeletedWithoutHost(t *testing.T) {
	p := commented(t, 1)
	p.host.Close()
	p.deleteSet(metav1.DeletePropagationBackground)
	p.awaitSetGone()
	programs.Eventually(t, func(ctx context.Context) error {
		list, err := p.cluster.Client.EventsV1().Events(p.control).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, event := range list.Items {
			if event.Reason == "PreviewNotReported" && strings.Contains(event.Note, "comments still lead to its previews") && strings.Contains(event.Note, "pull request 1") {
				return nil
			}
		}
		return errors.New("there is no Event")
	})
}

// TestPreviewSetOrphaned: a set that is deleted without its Applications leaves their
// comments as they are.
func TestPreviewSetOrphaned(t *testing.T) {
	p := commented(t, 1)
	p.deleteSet(metav1.DeletePropagationOrphan)
	p.awaitSetGone()
	p.awaits(p.control, "pr-1")
	p.awaitComment(1, "is at <https://pr-1.preview.example.com>")
}
