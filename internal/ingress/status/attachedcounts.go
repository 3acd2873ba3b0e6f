package status

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/snapshot"
)

// countsInterval is the least time between two writes of a Gateway or ListenerSet that
// differ in the numbers of attached routes alone. Each route that comes or goes changes
// them: without the interval a rollout of thousands of routes writes the Gateway as often,
// takes half of the rate from the statuses of the routes, and keeps the API server from
// accepting the next route.
const countsInterval = 2 * time.Second

// awaitCounts returns when the numbers of attached routes may be written again; 0 if they
// may be now, or if more than these changed. The first change after a quiet time is
// written at once.
func (w *GatewayWriter) awaitCounts(ref snapshot.Ref) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	record, last := w.records[ref], w.counted[ref]
	rest := countsInterval - time.Since(last)
	if record == nil || rest <= 0 || !w.reported(ref, record).onlyCounts() {
		return 0
	}
	return rest
}

// noteCounts records a write of a Gateway or ListenerSet. The caller holds mu.
func (w *GatewayWriter) noteCounts(ref snapshot.Ref, now time.Time) {
	if ref.Kind == snapshot.Gateway || ref.Kind == snapshot.ListenerSet {
		w.counted[ref] = now
	}
}

// onlyCounts reports whether the status differs in nothing but the numbers of attached
// routes, if at all.
func (r *gatewayRecord) onlyCounts() bool {
	counted := *r
	switch object := r.object.(type) {
	case *gatewayv1.Gateway:
		if r.wanted.Gateway == nil {
			return false
		}
		status := *r.wanted.Gateway
		status.Listeners = withCounts(status.Listeners, object.Status.Listeners,
			func(l *gatewayv1.ListenerStatus) (gatewayv1.SectionName, *int32) { return l.Name, &l.AttachedRoutes })
		counted.wanted.Gateway = &status
	case *gatewayv1.ListenerSet:
		if r.wanted.Set == nil {
			return false
		}
		status := *r.wanted.Set
		status.Listeners = withCounts(status.Listeners, object.Status.Listeners,
			func(l *gatewayv1.ListenerEntryStatus) (gatewayv1.SectionName, *int32) {
				return l.Name, &l.AttachedRoutes
			})
		counted.wanted.Set = &status
	default:
		return false
	}
	return counted.changes(metav1.Time{}) == nil
}

// withCounts returns listeners with the numbers of attached routes of others with the
// same names.
func withCounts[L any](listeners, others []L, of func(*L) (gatewayv1.SectionName, *int32)) []L {
	counts := map[gatewayv1.SectionName]int32{}
	for i := range others {
		name, count := of(&others[i])
		counts[name] = *count
	}
	counted := make([]L, len(listeners))
	for i := range listeners {
		counted[i] = listeners[i]
		name, count := of(&counted[i])
		*count = counts[name]
	}
	return counted
}
