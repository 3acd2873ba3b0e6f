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

// podView is what Services may know of a Pod: the Pod with the status that the node holds true, which is newer than
// what the API server has, and where its ports are.
type podView struct {
	pod   *corev1.Pod
	ports portMap
}

// observe gathers what the status is computed from.
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

// report tells Services and the API server what has changed, and has a deleted Pod removed once it has ended.
func (w *worker) report(ctx context.Context) error {
	if w.gone() {
		return nil
	}
	pod := w.pod()
	seen := w.observe(pod)
	next := nextStatus(pod, seen)
	w.offer(pod, next)
	news := w.written == nil || !equality.Semantic.DeepEqual(next, *w.written)
	foreign := w.compared != pod.ResourceVersion && !equality.Semantic.DeepEqual(next, pod.Status)
	if news || foreign {
		if err := w.write(ctx, seen); err != nil {
			return err
		}
		w.written, w.compared = &next, pod.ResourceVersion
	}
	if pod.DeletionTimestamp == nil || !seen.ended || w.removed {
		return nil
	}
	return w.remove(ctx)
}

// offer shows the Pod to Services.
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

// view is what Services may know of the Pod; ok is false for a Pod that offers nothing.
func (w *worker) view() (v podView, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.offered, w.offered.pod != nil && !w.deleted && w.offered.ports.addr.IsValid()
}

// write brings the status at the API server up to date. It reads first, so that the patch is exact and nothing that
// others wrote meanwhile is lost.
func (w *worker) write(ctx context.Context, seen observed) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	pods := w.host.client.CoreV1().Pods(w.Namespace)
	current, err := pods.Get(ctx, w.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && current.UID != w.uid {
		return nil // the informer is about to say so
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

// remove has the API server remove the object; that it is gone is learnt from the informer.
func (w *worker) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	now := int64(0)
	err := w.host.client.CoreV1().Pods(w.Namespace).Delete(ctx, w.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now,
		Preconditions:      &metav1.Preconditions{UID: &w.uid},
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return err
	}
	w.removed = true
	return nil
}

func (w *worker) event(pod *corev1.Pod, reason, message string) {
	kind := corev1.EventTypeNormal
	if reason != "Killing" {
		kind = corev1.EventTypeWarning
	}
	w.host.events.Event(pod, kind, reason, message)
}
