package status

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/engine"
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
	// counted has when the numbers of attached routes were written last, see awaitCounts.
	counted map[snapshot.Ref]time.Time
	// fetchFailures has the certificates that this replica could not get as the leader.
	fetchFailures fetchFailures
	// Quiet is called when the backlog has been written and no object waits, as after the
	// start: what was allocated for them can be released. It may be nil, and is set before
	// Lead.
	Quiet func()
	// crowded is set when an object had to wait in the backlog, until Quiet is called.
	crowded bool
	// backlog are objects that wait for room in the queue, which keeps the memory for as many
	// as it ever had.
	backlog []snapshot.Ref
	// queue is nil while this replica does not lead.
	queue    workqueue.TypedDelayingInterface[snapshot.Ref]
	failures failureLog
}

// NewGatewayWriter returns a writer. It sends nothing before Lead. It writes a Service for
// each Gateway, too, if services is set.
func NewGatewayWriter(cluster *kube.Cluster, services bool, log *slog.Logger) *GatewayWriter {
	w := &GatewayWriter{cluster: cluster, log: log, records: map[snapshot.Ref]*gatewayRecord{}, fetchFailures: fetchFailures{}, waiting: map[snapshot.Ref]struct{}{}, counted: map[snapshot.Ref]time.Time{}}
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
		w.backlog, w.crowded = append(w.backlog, ref), true
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
	if !w.differs(ref, record) {
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
	delete(w.counted, ref)
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
	wait, err := cmp.Or(w.awaitReplicas(ref), w.awaitCounts(ref)), error(nil)
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
	if !w.needsWrite(ref) || rate.Wait(ctx) != nil {
		return nil
	}
	patch := w.patchOf(ref) // the status may have changed during the wait
	if patch == nil {
		return nil
	}
	request, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	resource := gatewayv1.SchemeGroupVersion.WithResource(snapshot.GatewayResource(ref.Kind))
	// Only the metadata of the object is returned: the watch delivers the rest, and an
	// object with its managed fields is several times as large as the patch.
	_, err := w.cluster.Metadata.Resource(resource).Namespace(ref.Namespace).Patch(
		request, ref.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager}, statusSubresource)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // after a conflict the watch delivers the new version, which queues it again
	}
	return err
}

// noteQuiet calls Quiet if the backlog is written and no object waits. Statuses that come
// one by one never call it, however many: it collects the whole heap and drops pages of
// the program, which holds up requests and the next change for tens of milliseconds.
func (w *GatewayWriter) noteQuiet() {
	w.mu.Lock()
	quiet := w.crowded && w.queue != nil && w.queue.Len()+len(w.backlog) == 0
	if quiet {
		w.crowded = false
	}
	w.mu.Unlock()
	if quiet && w.Quiet != nil {
		w.Quiet()
	}
}

const statusSubresource = "status"

// needsWrite reports whether the status of an object differs from the one that is there.
func (w *GatewayWriter) needsWrite(ref snapshot.Ref) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	record := w.records[ref]
	return record != nil && w.differs(ref, record)
}

// differs is needsWrite for a caller that holds mu. It encodes nothing: most objects that
// are queued are versions with our own status, and need no write.
func (w *GatewayWriter) differs(ref snapshot.Ref, record *gatewayRecord) bool {
	return w.reported(ref, record).changes(metav1.Time{}) != nil
}

// reported returns the record of an object with the status that is reported: with the
// certificates that this replica could not get.
func (w *GatewayWriter) reported(ref snapshot.Ref, record *gatewayRecord) *gatewayRecord {
	reported := *record
	reported.wanted = w.fetchFailures.reported(ref, record.wanted)
	return &reported
}

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
	now := time.Now()
	status := w.reported(ref, record).changes(metav1.NewTime(now))
	if status == nil {
		return nil
	}
	w.noteCounts(ref, now)
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": record.object.GetResourceVersion(), "uid": record.object.GetUID()},
		"status":   status,
	})
	if err != nil {
		panic(fmt.Sprintf("encode the status of %s: %v", ref, err)) // internal error: it has plain fields only
	}
	return patch
}
