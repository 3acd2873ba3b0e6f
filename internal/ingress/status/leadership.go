package status

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

const (
	writesPerSecond = 20
	writeBurst      = 50
	writeWorkers    = 4

	// Any second has at most the rate plus the burst: 20 Events.
	eventsPerSecond = 10
	eventBurst      = 10
	eventWorkers    = 2

	requestTimeout = 10 * time.Second
)

// leadershipTerm is the time from winning the Lease to losing it. It begins with all
// objects queued, and ends with no request in flight. A work queue gives a key to
// one worker at a time, so an Ingress never has two writes in flight.
type leadershipTerm struct {
	writer     *Writer
	ingresses  workqueue.TypedDelayingInterface[ingressKey]
	notices    workqueue.TypedDelayingInterface[snapshot.Ref]
	writeRate  flowcontrol.RateLimiter
	noticeRate flowcontrol.RateLimiter
	// changed gets a signal when the published addresses change.
	changed chan struct{}
	// shared is open while the status of shared Ingresses may be written.
	shared sharedGate
}

// lead writes status and Events until the context is done. It returns only when
// all workers have ended, because the Lease is released after it.
func (w *Writer) lead(ctx context.Context) {
	t := &leadershipTerm{
		writer:     w,
		ingresses:  workqueue.NewTypedDelayingQueue[ingressKey](),
		notices:    workqueue.NewTypedDelayingQueue[snapshot.Ref](),
		writeRate:  flowcontrol.NewTokenBucketRateLimiter(writesPerSecond, writeBurst),
		noticeRate: flowcontrol.NewTokenBucketRateLimiter(eventsPerSecond, eventBurst),
		changed:    make(chan struct{}, 1),
	}
	t.begin()
	var workers sync.WaitGroup
	for range writeWorkers {
		workers.Go(func() { serve(ctx, t.ingresses, t.write) })
	}
	for range eventWorkers {
		workers.Go(func() { serve(ctx, t.notices, t.notify) })
	}
	workers.Go(func() { t.holdShared(ctx) })
	if w.options.WhileLeading != nil {
		workers.Go(func() { w.options.WhileLeading(ctx) })
	}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-t.changed:
			t.enqueueAll()
		}
	}
	t.end()
	workers.Wait()
}

func (t *leadershipTerm) begin() {
	w := t.writer
	w.mu.Lock()
	w.term = t
	for object, a := range w.recorders {
		a.forgetReported()
		t.notices.Add(object)
	}
	w.mu.Unlock()
	t.enqueueAll()
	w.leading.Store(true)
	w.metrics.leads(true)
	w.log.Info("became leader: writing status and Events")
}

// end stops the queues and drops what only a leader needs. Events about refusals
// that end from now on are written by the next leader.
func (t *leadershipTerm) end() {
	w := t.writer
	w.leading.Store(false)
	w.metrics.leads(false)
	w.mu.Lock()
	w.term = nil
	for object, a := range w.recorders {
		a.own, a.fetchFailures = nil, nil
		a.updateActive(time.Now())
		a.forgetReported()
		a.recent = nil
		if a.empty() {
			delete(w.recorders, object)
		}
	}
	for _, known := range w.records {
		known.rewrites, known.contested, known.failures, known.notBefore = 0, false, 0, time.Time{}
	}
	w.mu.Unlock()
	t.ingresses.ShutDown()
	t.notices.ShutDown()
	w.log.Info("lost leadership: status and Events are written by another replica")
}

// addressesChanged signals that the addresses changed. It never blocks: one signal
// stands for any number of changes.
func (t *leadershipTerm) addressesChanged() {
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// enqueueAll queues every Ingress. The queue is filled without the lock, since Add
// may wait for a worker that needs it.
func (t *leadershipTerm) enqueueAll() {
	w := t.writer
	w.mu.Lock()
	keys := slices.Collect(maps.Keys(w.records))
	w.mu.Unlock()
	for _, at := range keys {
		t.ingresses.Add(at)
	}
}

// serve processes a queue until it is shut down. After the end of the context the
// remaining keys are discarded.
func serve[K comparable](ctx context.Context, queue workqueue.TypedDelayingInterface[K], work func(context.Context, K) time.Duration) {
	for {
		key, closed := queue.Get()
		if closed {
			return
		}
		if ctx.Err() == nil {
			if again := work(ctx, key); again > 0 {
				queue.AddAfter(key, again)
			}
		}
		queue.Done(key)
	}
}

// write writes or withdraws the status of an Ingress if needed, and returns when
// to check again.
func (t *leadershipTerm) write(ctx context.Context, at ingressKey) time.Duration {
	task, rest := t.plan(at)
	if task.step == stepLeave {
		return rest
	}
	// Only writes take from the rate limit. The plan may be outdated after the
	// wait.
	if t.writeRate.Wait(ctx) != nil {
		return 0
	}
	if task, rest = t.plan(at); task.step == stepLeave {
		return rest
	}
	writing, done, admitted := t.admit(ctx, task)
	if !admitted {
		return 0 // all are queued again when the gate opens
	}
	defer done()
	request, cancel := context.WithTimeout(writing, requestTimeout)
	defer cancel()
	object, err := t.writer.apply(request, task)
	if err != nil {
		return t.writeFailed(writing, task, err)
	}
	w := t.writer
	w.mu.Lock()
	defer w.mu.Unlock()
	result := resultWritten
	if task.step == stepWithdraw {
		result = resultWithdrawn
	}
	w.metrics.writes.WithLabelValues(result).Inc()
	known := w.records[at]
	if known == nil || known.uid != task.uid {
		return 0
	}
	now := time.Now()
	known.written(task.step, task.addresses, object, now)
	if known.idle() {
		delete(w.records, at)
	}
	// A problem may wait for its grace to end.
	return known.decide(now).rest
}

// plan copies what a write needs, so that the request runs without the lock.
func (t *leadershipTerm) plan(at ingressKey) (statusWrite, time.Duration) {
	w := t.writer
	w.mu.Lock()
	known := w.records[at]
	if known == nil || known.shared && !t.shared.isOpen() {
		w.mu.Unlock()
		return statusWrite{}, 0
	}
	before := known.contested
	task, wanted, rest := known.next(&w.published, time.Now())
	changed := known.contested != before
	if changed {
		w.contest(at, known.contested)
	}
	write := statusWrite{at: at, uid: known.uid, version: known.version, step: task, shared: known.shared, addresses: wanted}
	w.mu.Unlock()
	if changed && !before {
		w.metrics.contested.Inc()
		w.log.Warn("status contested by another controller", "object", at.ref().String())
	}
	return write, rest
}

// contest reports on the Ingress that another controller writes its status, or
// clears that. The caller holds mu.
func (w *Writer) contest(at ingressKey, contested bool) {
	var own []refusal.Refusal
	if contested {
		own = append(own, refusal.Refusal{Field: "status.loadBalancer", Reason: refusal.Conflict,
			Message: "another controller keeps overwriting the addresses: let only one controller serve this Ingress"})
	}
	w.updateFaults(at.ref(), func(a *eventRecorder) { a.own = own })
}

// dropLeft removes the record of an Ingress that is no longer watched, and that does
// not exist or is another one of that name.
func (w *Writer) dropLeft(task statusWrite) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.records[task.at]; known != nil && known.left && known.uid == task.uid {
		delete(w.records, task.at)
	}
}

// writeFailed records a failed write and returns when to retry.
func (t *leadershipTerm) writeFailed(ctx context.Context, task statusWrite, err error) time.Duration {
	w := t.writer
	result := resultFailed
	switch {
	case ctx.Err() != nil:
		return 0
	case apierrors.IsNotFound(err):
		// It is being deleted; the watch delivers that, unless it has before.
		w.dropLeft(task)
		return 0
	case apierrors.IsConflict(err):
		// It has changed; the watch delivers the new version.
		result = resultConflict
		w.dropLeft(task)
	default:
		w.failures.log(w.log, "write of a status failed, retrying", task.at.ref().String(), err)
	}
	w.metrics.writes.WithLabelValues(result).Inc()
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.records[task.at]
	if known == nil || known.uid != task.uid {
		return 0
	}
	return known.failed(time.Now())
}
