package node

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// podView is a Pod as EndpointSlices describe it: with the status that the node
// has computed, which is newer than the API server's, and with the real
// addresses of its ports.
type podView struct {
	pod   *corev1.Pod
	ports portMap
}

// observe gathers the input of nextStatus. Each container is read under its own
// lock, so the result is not one atomic state; a change after the read wakes
// the worker again.
func (w *worker) observe(pod *corev1.Pod) observed {
	o := observed{
		hostIP: w.host.cfg.Address.String(), problem: w.problem,
		stopping: w.stopping, ended: w.stopping && w.allEnded(), expired: w.expired,
		generation: pod.Generation, now: apiTime(time.Now()),
	}
	if w.ports != nil {
		o.podIP = w.ports.addr.String()
	}
	for _, c := range w.inits {
		o.init = append(o.init, c.snapshot())
	}
	for _, c := range w.regular {
		o.regular = append(o.regular, c.snapshot())
	}
	return o
}

// report publishes the Pod's status to the slice writer and to the API server,
// and deletes the object of a Pod that is being deleted once its processes have
// ended. After an error the caller retries with backoff.
func (w *worker) report(ctx context.Context) error {
	if w.gone() {
		return nil
	}
	pod := w.pod()
	seen := w.observe(pod)
	next := nextStatus(pod, seen)
	// Endpoints first: traffic must move even while the API server refuses the
	// write of the status.
	w.offer(pod, next)
	// Write when the computed status changed, or when another client changed
	// the status in the API. The second is checked once per resource version:
	// the informer's copy lags behind our own write, and would cause it again.
	news := w.written == nil || !equality.Semantic.DeepEqual(next, *w.written)
	foreign := w.compared != pod.ResourceVersion && !equality.Semantic.DeepEqual(next, pod.Status)
	if news || foreign {
		if err := w.write(ctx, seen); err != nil {
			return err
		}
		w.written, w.compared = &next, pod.ResourceVersion
	}
	// The object is deleted only after its last status has been written.
	if pod.DeletionTimestamp == nil || !seen.ended || w.removed {
		return nil
	}
	return w.remove(ctx)
}

// offer stores the view that the slice writer reads, and triggers it when the
// view has changed. The callback runs outside the lock, so that it may read
// views.
func (w *worker) offer(pod *corev1.Pod, status corev1.PodStatus) {
	view := podView{pod: pod.DeepCopy()}
	view.pod.Status = status
	if w.ports != nil {
		view.ports = w.ports.portMap
	}
	w.mu.Lock()
	old := w.offered
	w.offered = view
	w.mu.Unlock()
	same := old.pod != nil && equality.Semantic.DeepEqual(old.pod, view.pod) && old.ports.addr == view.ports.addr
	if !same {
		w.host.changed(w.Namespace)
	}
}

// view returns the stored view; ok is false for a Pod that is gone or has no
// address.
func (w *worker) view() (v podView, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.offered, w.offered.pod != nil && !w.deleted && w.offered.ports.addr.IsValid()
}

// write patches the status at the API server. It reads the Pod first, so that
// the patch is computed from the live object and keeps what other clients wrote
// meanwhile. A Pod that no longer exists is not an error.
func (w *worker) write(ctx context.Context, seen observed) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	pods := w.host.client.CoreV1().Pods(w.Namespace)
	current, err := pods.Get(ctx, w.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && current.UID != w.uid {
		return nil // the informer is about to deliver the delete event
	}
	if err != nil {
		return err
	}
	patch, err := statusPatch(current, nextStatus(current, seen))
	if err != nil || patch == nil {
		return err
	}
	_, err = pods.Patch(ctx, w.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// remove sends the final delete request with a grace period of zero, which
// removes the object once it has no finalizers. The UID precondition protects a
// new Pod of the same name. The worker ends only when the informer delivers the
// delete event.
func (w *worker) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	now := int64(0)
	err := w.host.client.CoreV1().Pods(w.Namespace).Delete(ctx, w.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now,
		Preconditions:      &metav1.Preconditions{UID: &w.uid},
	})
	// A conflict is a failed precondition: the object has been replaced.
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return err
	}
	w.removed = true
	return nil
}

// event records an Event on the Pod. Killing is the only one in the normal
// course of a Pod; all others are warnings.
func (w *worker) event(pod *corev1.Pod, reason, message string) {
	kind := corev1.EventTypeNormal
	if reason != "Killing" {
		kind = corev1.EventTypeWarning
	}
	w.host.events.Event(pod, kind, reason, message)
}
