package status

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/kube"
)

const (
	reasonRefused  = "Refused"
	reasonAccepted = "Accepted"
	actionRoute    = "Route"
	acceptedNote   = "nothing is refused any more"

	// atOnce requeues behind the objects that wait already.
	atOnce = time.Nanosecond
)

// notify writes one Event about an object, and returns when to check again. It
// writes one at a time, so that an object with many refusals does not hold up the
// others. The Event is chosen again after the rate limiter, which may have waited
// long.
func (t *leadershipTerm) notify(ctx context.Context, object snapshot.Ref) time.Duration {
	_, news, rest := t.nextEvent(object)
	if news == nil {
		return rest
	}
	if t.noticeRate.Wait(ctx) != nil {
		return 0
	}
	notice, news, rest := t.nextEvent(object)
	if news == nil {
		return rest
	}
	request, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	w := t.writer
	err := w.announce(request, notice)
	switch {
	case ctx.Err() != nil:
		return 0
	case err == nil:
		w.metrics.events.WithLabelValues(resultSent).Inc()
	default:
		w.metrics.events.WithLabelValues(resultFailed).Inc()
		w.failures.log(w.log, "write of an Event failed", object.String(), err)
	}
	t.recordEvent(object, *news, err)
	return atOnce
}

// recordEvent records the outcome of an Event.
func (t *leadershipTerm) recordEvent(object snapshot.Ref, news eventPayload, err error) {
	w := t.writer
	w.mu.Lock()
	defer w.mu.Unlock()
	a, now := w.recorders[object], time.Now()
	switch {
	case a == nil:
	case err == nil:
		a.markSent(news, now)
	case isPermanent(err):
		a.giveUp(news, now)
	default:
		a.fail(now)
	}
}

// nextEvent returns the next Event about an object. A recorder that holds nothing
// any more is deleted.
func (t *leadershipTerm) nextEvent(object snapshot.Ref) (kube.Notice, *eventPayload, time.Duration) {
	w := t.writer
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.recorders[object]
	if a == nil {
		return kube.Notice{}, nil, 0
	}
	news, rest := a.next(time.Now())
	if a.empty() {
		delete(w.recorders, object)
	}
	if news == nil {
		return kube.Notice{}, nil, rest
	}
	return noticeOf(w.regarding(object), *news, a.times(*news)), news, 0
}

func noticeOf(regarding corev1.ObjectReference, news eventPayload, times int) kube.Notice {
	notice := kube.Notice{Regarding: regarding, Action: actionRoute, Times: times}
	if news.accepted {
		notice.Reason, notice.Note = reasonAccepted, acceptedNote
		return notice
	}
	notice.Warning = true
	notice.Reason = reasonRefused + string(news.fault.Reason)
	notice.Note = news.fault.Text()
	return notice
}

// isPermanent reports whether a retry cannot help: the namespace is terminating,
// or the object has a name that no Event can have.
func isPermanent(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) ||
		apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// regarding returns the reference of an object for Events. The caller holds mu.
func (w *Writer) regarding(object snapshot.Ref) corev1.ObjectReference {
	reference := corev1.ObjectReference{
		Namespace: object.Namespace, Name: object.Name, Kind: string(object.Kind), APIVersion: "v1", UID: w.uids[object],
	}
	switch object.Kind {
	case snapshot.Ingress:
		reference.APIVersion = "networking.k8s.io/v1"
		if known := w.records[ingressKey{object.Namespace, object.Name}]; known != nil {
			reference.UID = known.uid
		}
	case snapshot.IngressClass:
		reference.APIVersion = "networking.k8s.io/v1"
	case snapshot.EndpointSlice:
		// The Ref stands for all slices of a Service, under its name.
		reference.Kind = string(snapshot.Service)
	default:
		if kind, group, custom := strings.Cut(string(object.Kind), "."); custom {
			version := "v1alpha1"
			if group == gatewayv1.GroupName {
				version = gatewayv1.GroupVersion.Version
			}
			reference.Kind, reference.APIVersion = kind, group+"/"+version
		}
	}
	if s := w.service; reference.Kind == string(snapshot.Service) && s != nil && s.Namespace == object.Namespace && s.Name == object.Name {
		reference.UID = s.UID
	}
	return reference
}
