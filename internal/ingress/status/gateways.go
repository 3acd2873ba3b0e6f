package status

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/gateway"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/kube"
)

// GatewayWriter writes the status of objects of Gateway API. As with Ingresses, all
// replicas keep the state, and only the leader writes, with a rate.
//
// A status is written only if it differs from the one that is there, and only on the
// version of the object that was read: status.parents of a route is one list that
// several controllers write, and the entries of others must stay as they are.
type GatewayWriter struct {
	cluster *kube.Cluster
	log     *slog.Logger
	// Replicas are waited for before a status is written; nil if this one is alone. It is
	// set before Lead.
	Replicas *Replicas
	// Deployments are those of each Gateway; nil if Gateways share the edge. It is set
	// before the first Set.
	Deployments *GatewayDeployments

	mu sync.Mutex
	// needed are the versions that statuses are derived from, and waiting the objects
	// whose status waits for other replicas.
	needed  Versions
	waiting map[snapshot.Ref]struct{}
	records map[snapshot.Ref]*gatewayRecord
	// published has the Services that were written; nil if Gateways have none.
	published map[snapshot.Ref]gatewayService
	// fetchFailures has the certificates that this replica could not get as the leader.
	fetchFailures fetchFailures
	// Quiet is called when many statuses were written and none is left, as after the
	// start: what was allocated for them can be released. It may be nil, and is set before
	// Lead.
	Quiet func()
	// written counts the statuses since Quiet was called.
	written atomic.Int64
	// backlog are objects that wait for room in the queue, which keeps the memory for as many
	// as it ever had.
	backlog []snapshot.Ref
	// queue is nil while this replica does not lead.
	queue    workqueue.TypedDelayingInterface[snapshot.Ref]
	failures failureLog
}

// gatewayRecord is an object as it was last seen, and the status that it should have.
type gatewayRecord struct {
	object snapshot.GatewayObject
	wanted engine.GatewayStatus
	// needed are the versions that the status is derived from, until it is written. A
	// replica that does not lead has none: there are thousands of records.
	needed Versions
	failed int // failures in a row
}

// NewGatewayWriter returns a writer. It sends nothing before Lead. It writes a Service for
// each Gateway, too, if services is set.
func NewGatewayWriter(cluster *kube.Cluster, services bool, log *slog.Logger) *GatewayWriter {
	w := &GatewayWriter{cluster: cluster, log: log, records: map[snapshot.Ref]*gatewayRecord{}, fetchFailures: fetchFailures{}, waiting: map[snapshot.Ref]struct{}{}}
	if services {
		w.published = map[snapshot.Ref]gatewayService{}
	}
	return w
}

// Set sets an object as it was last seen and its status. It returns at once.
func (w *GatewayWriter) Set(ref snapshot.Ref, object snapshot.GatewayObject, wanted engine.GatewayStatus) {
	w.mu.Lock()
	defer w.mu.Unlock()
	record := &gatewayRecord{object: object, wanted: wanted}
	if w.queue != nil {
		record.needed = w.needed
	}
	w.records[ref] = record
	if w.Deployments != nil && ref.Kind == snapshot.Gateway {
		w.Deployments.set(ref, wanted.Gateway != nil && object.GetDeletionTimestamp() == nil)
	}
	w.enqueue(ref)
}

// maxQueued is the number of objects in the queue from which on others wait in the backlog.
const maxQueued = 512

// enqueue queues an object, if this replica leads. The caller holds mu.
func (w *GatewayWriter) enqueue(ref snapshot.Ref) {
	switch {
	case w.queue == nil:
	case len(w.backlog) > 0 || w.queue.Len() >= maxQueued:
		w.backlog = append(w.backlog, ref)
	default:
		w.queue.Add(ref)
	}
}

// refill moves objects from the backlog to the queue. It runs after each object, so that
// the queue never runs empty before the backlog does.
func (w *GatewayWriter) refill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.backlog) > 0 && w.queue != nil && w.queue.Len() < maxQueued {
		w.queue.Add(w.backlog[0])
		if w.backlog = w.backlog[1:]; len(w.backlog) == 0 {
			w.backlog = nil
		}
	}
}

// SetServed sets the versions of the objects that were read, which the next statuses are
// derived from, and those up to which this replica serves the cluster. Nothing changes
// with nil.
func (w *GatewayWriter) SetServed(read, served Versions) {
	if read == nil || w.Replicas == nil {
		return
	}
	w.mu.Lock()
	w.needed = read
	w.mu.Unlock()
	w.Replicas.setServed(served)
}

// awaitReplicas returns when to look again at a status that some replicas do not serve
// yet; 0 if it may be written.
func (w *GatewayWriter) awaitReplicas(ref snapshot.Ref) time.Duration {
	if w.Replicas == nil {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	record := w.records[ref]
	if record == nil {
		return 0
	}
	if w.patch(ref, record) == nil {
		record.needed = nil
		return 0
	}
	lagging := w.Replicas.lagging(record.needed, time.Now())
	if len(lagging) == 0 {
		delete(w.waiting, ref)
		return 0
	}
	w.waiting[ref] = struct{}{}
	w.log.Debug("a status waits for other replicas", "object", ref.String(), "replicas", lagging)
	return replicaRecheck
}

// requeueWaiting queues the objects that wait for other replicas.
func (w *GatewayWriter) requeueWaiting() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ref := range w.waiting {
		w.enqueue(ref)
	}
	clear(w.waiting)
}

// Gone removes an object that was deleted.
func (w *GatewayWriter) Gone(ref snapshot.Ref) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.records, ref)
	delete(w.published, ref)
	delete(w.fetchFailures, ref)
	delete(w.waiting, ref)
	if w.Deployments != nil {
		w.Deployments.forget(ref)
	}
}

// Lead writes until the context is done, and returns when no request is in flight.
func (w *GatewayWriter) Lead(ctx context.Context) {
	queue := workqueue.NewTypedDelayingQueue[snapshot.Ref]()
	if w.Replicas != nil {
		w.Replicas.notify(w.requeueWaiting)
	}
	w.mu.Lock()
	w.queue = queue
	for ref, record := range w.records {
		record.needed = w.needed // no older than those that its status is derived from
		w.enqueue(ref)
	}
	w.mu.Unlock()
	rate := flowcontrol.NewTokenBucketRateLimiter(writesPerSecond, writeBurst)
	var workers sync.WaitGroup
	for range writeWorkers {
		workers.Go(func() {
			serve(ctx, queue, func(ctx context.Context, ref snapshot.Ref) time.Duration {
				defer w.refill()
				return w.write(ctx, ref, rate)
			})
		})
	}
	<-ctx.Done()
	w.mu.Lock()
	w.queue, w.backlog = nil, nil
	w.mu.Unlock()
	queue.ShutDown()
	workers.Wait()
}

// write writes the status of an object and the Service of a Gateway if they differ, and
// returns when to try again.
func (w *GatewayWriter) write(ctx context.Context, ref snapshot.Ref, rate flowcontrol.RateLimiter) time.Duration {
	wait, err := w.awaitReplicas(ref), error(nil)
	if wait == 0 {
		err = w.writeStatus(ctx, ref, rate)
		w.noteQuiet()
	}
	if err == nil {
		err = w.writeService(ctx, ref, rate)
	}
	if err == nil || ctx.Err() != nil {
		return wait
	}
	w.failures.log(w.log, "write of a status or Service failed, retrying", ref.String(), err)
	w.mu.Lock()
	defer w.mu.Unlock()
	record := w.records[ref]
	if record == nil {
		return 0
	}
	record.failed++
	return retryAfter(record.failed)
}

// writeStatus writes the status of an object if it differs.
func (w *GatewayWriter) writeStatus(ctx context.Context, ref snapshot.Ref, rate flowcontrol.RateLimiter) error {
	if w.patchOf(ref) == nil || rate.Wait(ctx) != nil {
		return nil
	}
	patch := w.patchOf(ref) // the status may have changed during the wait
	if patch == nil {
		return nil
	}
	request, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	resource := gatewayv1.SchemeGroupVersion.WithResource(snapshot.GatewayResource(ref.Kind))
	_, err := w.cluster.Dynamic.Resource(resource).Namespace(ref.Namespace).Patch(
		request, ref.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager}, statusSubresource)
	w.written.Add(1)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // after a conflict the watch delivers the new version, which queues it again
	}
	return err
}

// quietWrites is the number of statuses after which Quiet is worth its cost.
const quietWrites = 500

// noteQuiet calls Quiet if no object waits after many writes.
func (w *GatewayWriter) noteQuiet() {
	w.mu.Lock()
	queue, backlog := w.queue, len(w.backlog)
	w.mu.Unlock()
	if written := w.written.Load(); w.Quiet == nil || queue == nil || queue.Len()+backlog > 0 || written < quietWrites || !w.written.CompareAndSwap(written, 0) {
		return
	}
	w.Quiet()
}

const statusSubresource = "status"

// patchOf returns the patch that writes the status of an object, nil if there is
// nothing to write. The lists of a status are replaced as a whole, so that the patch
// is valid only for the version that it was made from.
func (w *GatewayWriter) patchOf(ref snapshot.Ref) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	record := w.records[ref]
	if record == nil {
		return nil
	}
	return w.patch(ref, record)
}

// patch is patchOf for a caller that holds mu.
func (w *GatewayWriter) patch(ref snapshot.Ref, record *gatewayRecord) []byte {
	reported := *record
	reported.wanted = w.fetchFailures.reported(ref, record.wanted)
	status := reported.changes(metav1.NewTime(time.Now()))
	if status == nil {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": record.object.GetResourceVersion(), "uid": record.object.GetUID()},
		"status":   status,
	})
	if err != nil {
		panic(fmt.Sprintf("encode the status of %s: %v", ref, err)) // internal error: it has plain fields only
	}
	return patch
}

// changes returns the fields of the status to write, nil if they are there.
func (r *gatewayRecord) changes(now metav1.Time) map[string]any {
	switch object := r.object.(type) {
	case *gatewayv1.GatewayClass:
		if r.wanted.Class == nil {
			return nil
		}
		next := *r.wanted.Class
		next.Conditions = mergeConditions(object.Status.Conditions, next.Conditions, now, true)
		if reflect.DeepEqual(object.Status, next) {
			return nil
		}
		return map[string]any{"conditions": next.Conditions, "supportedFeatures": next.SupportedFeatures}
	case *gatewayv1.Gateway:
		return r.gatewayChanges(object, now)
	case *gatewayv1.ListenerSet:
		return r.setChanges(object, now)
	case *gatewayv1.HTTPRoute:
		return r.routeChanges(object.Status.Parents, now)
	case *gatewayv1.GRPCRoute:
		return r.routeChanges(object.Status.Parents, now)
	case *gatewayv1.TLSRoute:
		return r.routeChanges(object.Status.Parents, now)
	case *gatewayv1.TCPRoute:
		return r.routeChanges(object.Status.Parents, now)
	case *gatewayv1.UDPRoute:
		return r.routeChanges(object.Status.Parents, now)
	case *gatewayv1.BackendTLSPolicy:
		next := mergeAncestors(object.Status.Ancestors, r.wanted.Ancestors, now)
		if len(next) == len(object.Status.Ancestors) && (len(next) == 0 || reflect.DeepEqual(object.Status.Ancestors, next)) {
			return nil
		}
		return map[string]any{"ancestors": next}
	}
	return nil
}

// routeChanges is changes for a route with these parents.
func (r *gatewayRecord) routeChanges(before []gatewayv1.RouteParentStatus, now metav1.Time) map[string]any {
	next := mergeParents(before, r.wanted.Parents, now)
	if len(next) == len(before) && (len(next) == 0 || reflect.DeepEqual(before, next)) {
		return nil
	}
	return map[string]any{"parents": next}
}

// gatewayChanges is changes for a Gateway.
func (r *gatewayRecord) gatewayChanges(object *gatewayv1.Gateway, now metav1.Time) map[string]any {
	if r.wanted.Gateway == nil {
		return nil
	}
	next := *r.wanted.Gateway
	// Conditions of others stay. These are ours alone, and go with their cause.
	before := slices.DeleteFunc(slices.Clone(object.Status.Conditions), func(c metav1.Condition) bool {
		return (c.Type == string(gatewayv1.GatewayConditionInsecureFrontendValidationMode) || c.Type == string(gatewayv1.GatewayConditionResolvedRefs) || c.Type == snapshot.TargetPortsCondition) &&
			!slices.ContainsFunc(next.Conditions, func(own metav1.Condition) bool { return own.Type == c.Type })
	})
	next.Conditions = mergeConditions(before, next.Conditions, now, true)
	next.Listeners = slices.Clone(next.Listeners)
	for i := range next.Listeners {
		of := &next.Listeners[i]
		var before []metav1.Condition
		for _, listener := range object.Status.Listeners {
			if listener.Name == of.Name {
				before = listener.Conditions
			}
		}
		of.Conditions = mergeConditions(before, of.Conditions, now, false)
	}
	if reflect.DeepEqual(object.Status, next) {
		return nil
	}
	return map[string]any{
		"addresses": next.Addresses, "conditions": next.Conditions, "listeners": next.Listeners, "attachedListenerSets": next.AttachedListenerSets,
	}
}

// setChanges is changes for a ListenerSet.
func (r *gatewayRecord) setChanges(object *gatewayv1.ListenerSet, now metav1.Time) map[string]any {
	if r.wanted.Set == nil {
		return nil
	}
	next := *r.wanted.Set
	next.Conditions = mergeConditions(object.Status.Conditions, next.Conditions, now, true)
	next.Listeners = slices.Clone(next.Listeners)
	for i := range next.Listeners {
		of := &next.Listeners[i]
		var before []metav1.Condition
		for _, listener := range object.Status.Listeners {
			if listener.Name == of.Name {
				before = listener.Conditions
			}
		}
		of.Conditions = mergeConditions(before, of.Conditions, now, false)
	}
	if reflect.DeepEqual(object.Status, next) {
		return nil
	}
	return map[string]any{"conditions": next.Conditions, "listeners": next.Listeners}
}

// mergeConditions returns conditions with the time of their last transition: now for
// those whose status changed. Conditions of other types are kept where others may
// write them.
func mergeConditions(before, next []metav1.Condition, now metav1.Time, keepOthers bool) []metav1.Condition {
	merged := slices.Clone(next)
	find := func(list []metav1.Condition, kind string) int {
		return slices.IndexFunc(list, func(c metav1.Condition) bool { return c.Type == kind })
	}
	for i := range merged {
		merged[i].LastTransitionTime = now
		if at := find(before, merged[i].Type); at >= 0 && before[at].Status == merged[i].Status {
			merged[i].LastTransitionTime = before[at].LastTransitionTime
		}
	}
	for _, other := range before {
		if keepOthers && find(next, other.Type) < 0 {
			merged = append(merged, other)
		}
	}
	slices.SortStableFunc(merged, func(a, b metav1.Condition) int {
		return cmp.Compare(uint(find(before, a.Type)), uint(find(before, b.Type))) // new ones last
	})
	return merged
}

// mergeParents replaces our entries in the status of a route. Those of other
// controllers stay where they are.
func mergeParents(before, next []gatewayv1.RouteParentStatus, now metav1.Time) []gatewayv1.RouteParentStatus {
	merged := make([]gatewayv1.RouteParentStatus, 0, len(before)+len(next))
	mine := func(of gatewayv1.RouteParentStatus) bool { return of.ControllerName == gateway.ControllerName }
	same := func(ref gatewayv1.ParentReference) func(gatewayv1.RouteParentStatus) bool {
		return func(of gatewayv1.RouteParentStatus) bool { return reflect.DeepEqual(of.ParentRef, ref) }
	}
	for _, entry := range before {
		if mine(entry) {
			at := slices.IndexFunc(next, same(entry.ParentRef))
			if at < 0 {
				continue
			}
			conditions := mergeConditions(entry.Conditions, next[at].Conditions, now, false)
			entry = next[at]
			entry.Conditions = conditions
		}
		merged = append(merged, entry)
	}
	for _, entry := range next {
		known := slices.ContainsFunc(merged, func(of gatewayv1.RouteParentStatus) bool { return mine(of) && same(entry.ParentRef)(of) })
		if !known {
			entry.Conditions = mergeConditions(nil, entry.Conditions, now, false)
			merged = append(merged, entry)
		}
	}
	return merged
}

// mergeAncestors replaces our entries in the status of a policy, as mergeParents does for
// routes. Those of other controllers come first.
func mergeAncestors(before, next []gatewayv1.PolicyAncestorStatus, now metav1.Time) []gatewayv1.PolicyAncestorStatus {
	mine := func(of gatewayv1.PolicyAncestorStatus) bool { return of.ControllerName == gateway.ControllerName }
	merged := slices.DeleteFunc(slices.Clone(before), mine)
	for _, entry := range next {
		known := slices.IndexFunc(before, func(of gatewayv1.PolicyAncestorStatus) bool {
			return mine(of) && reflect.DeepEqual(of.AncestorRef, entry.AncestorRef)
		})
		var conditions []metav1.Condition
		if known >= 0 {
			conditions = before[known].Conditions
		}
		entry.Conditions = mergeConditions(conditions, entry.Conditions, now, false)
		merged = append(merged, entry)
	}
	return merged
}
