package reconcile

import (
	"context"
	"log/slog"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/flowcontrol"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/operation"
	"slipway.dev/slipway/internal/kube"
)

const (
	// eventQueueSize bounds the Events that wait to be written. What does not
	// fit is counted and dropped: it is in the log and in the status, too.
	eventQueueSize  = 2000
	eventsPerSecond = 20
	eventsBurst     = 50
	// busyEventsPerSecond is the rate while many Applications wait for a worker: syncs
	// need the API server more, and the status has what the Events report.
	busyEventsPerSecond = 2
	eventTimeout        = 10 * time.Second
)

// eventRecorder writes Events in a goroutine of its own, with a rate limit: a
// slow API server must not delay a sync.
type eventRecorder struct {
	cluster  *kube.Cluster
	reporter kube.Reporter
	metrics  *Metrics
	log      *slog.Logger
	notices  chan kube.Notice
	// isBusy reports whether Events yield to syncs.
	isBusy func() bool
}

// newEventRecorder makes a recorder; it writes nothing before run.
func newEventRecorder(cluster *kube.Cluster, reporter kube.Reporter, metrics *Metrics, log *slog.Logger, isBusy func() bool) *eventRecorder {
	return &eventRecorder{
		cluster: cluster, reporter: reporter, metrics: metrics, log: log, isBusy: isBusy, notices: make(chan kube.Notice, eventQueueSize),
	}
}

// record queues an Event, or drops it when the queue is full. It never blocks.
func (a *eventRecorder) record(notice kube.Notice) {
	if a.reporter.Controller == "" {
		return
	}
	select {
	case a.notices <- notice:
	default:
		a.metrics.eventsDropped.Inc()
	}
}

// run writes queued Events until the context is done.
func (a *eventRecorder) run(ctx context.Context) {
	rate := flowcontrol.NewTokenBucketRateLimiter(eventsPerSecond, eventsBurst)
	defer rate.Stop()
	busy := flowcontrol.NewTokenBucketRateLimiter(busyEventsPerSecond, 1)
	defer busy.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case notice := <-a.notices:
			limit := rate
			if a.isBusy() {
				limit = busy
			}
			if limit.Wait(ctx) != nil {
				return
			}
			request, cancel := context.WithTimeout(ctx, eventTimeout)
			err := a.cluster.Announce(request, a.reporter, notice)
			cancel()
			if err != nil && ctx.Err() == nil {
				a.metrics.eventsDropped.Inc()
				a.log.Debug("event write failed", "error", err)
			}
		}
	}
}

// reference is what Events of an Application are about.
func reference(app *v1alpha1.Application) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.KindApplication, Namespace: app.Namespace, Name: app.Name, UID: app.UID,
	}
}

// recordStart reports the start of an operation that waits, once. One that ends
// within a run is reported by its end alone.
func (p *reconcileRun) recordStart(state *v1alpha1.OperationState) {
	if p.session.operation == nil || p.session.operation.announced {
		return
	}
	p.session.operation.announced = true
	p.log.Info("sync started", "revision", revisionText(state), "by", initiator(state))
	p.recordEvent(false, "OperationStarted", initiator(state)+" started a sync to "+revisionText(state))
}

// recordEnd reports the end of an operation, or that it will be retried.
func (p *reconcileRun) recordEnd(state *v1alpha1.OperationState) {
	took := state.FinishedAt.Sub(state.StartedAt.Time)
	var did string
	if state.SyncResult != nil {
		did = operation.Describe(state.SyncResult.Resources)
	}
	facts := []any{"phase", string(state.Phase), "revision", revisionText(state), "by", initiator(state), "took", took.String(), "changed", did, "message", state.Message}
	switch state.Phase {
	case v1alpha1.OperationSucceeded:
		p.log.Info("synced", facts...)
		p.recordEvent(false, "OperationCompleted", "sync to "+revisionText(state)+" succeeded: "+did)
	case v1alpha1.OperationRunning:
		p.log.Warn("sync failed, will retry", facts...)
		p.recordEvent(true, "OperationRetried", state.Message)
	default:
		p.log.Warn("sync failed", facts...)
		p.recordEvent(true, "OperationCompleted", "sync to "+revisionText(state)+" failed: "+state.Message)
	}
	p.Metrics.operated(state.Phase)
}

// revisionText is what an operation syncs to, for people.
func revisionText(state *v1alpha1.OperationState) string {
	if state.SyncResult == nil {
		if sync := state.Operation.Sync; sync != nil && sync.Revision != "" {
			return sync.Revision
		}
		return "the newest revision"
	}
	return strings.Join(resultRevisions(state.SyncResult), ", ")
}

// initiator is who started an operation, for people.
func initiator(state *v1alpha1.OperationState) string {
	by := state.Operation.InitiatedBy
	switch {
	case by.Automated:
		return "automated sync"
	case by.Username != "":
		return by.Username
	}
	return "an unknown user"
}
