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
	// noticesQueued bounds what waits to be told. What does not fit is counted and
	// left out: it is in the log and in the status.
	noticesQueued    = 1000
	noticesPerSecond = 20
	noticesBurst     = 50
	noticeTimeout    = 10 * time.Second
)

// announcer writes Events, apart from everything else: they must not hold up a
// sync.
type announcer struct {
	cluster  *kube.Cluster
	reporter kube.Reporter
	metrics  *Metrics
	log      *slog.Logger
	notices  chan kube.Notice
}

func newAnnouncer(cluster *kube.Cluster, reporter kube.Reporter, metrics *Metrics, log *slog.Logger) *announcer {
	return &announcer{cluster: cluster, reporter: reporter, metrics: metrics, log: log, notices: make(chan kube.Notice, noticesQueued)}
}

func (a *announcer) tell(notice kube.Notice) {
	if a.reporter.Controller == "" {
		return
	}
	select {
	case a.notices <- notice:
	default:
		a.metrics.untold()
	}
}

func (a *announcer) run(ctx context.Context) {
	rate := flowcontrol.NewTokenBucketRateLimiter(noticesPerSecond, noticesBurst)
	defer rate.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case notice := <-a.notices:
			if rate.Wait(ctx) != nil {
				return
			}
			request, cancel := context.WithTimeout(ctx, noticeTimeout)
			err := a.cluster.Announce(request, a.reporter, notice)
			cancel()
			if err != nil && ctx.Err() == nil {
				a.metrics.untold()
				a.log.Debug("an Event was not written", "error", err)
			}
		}
	}
}

func reference(app *v1alpha1.Application) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.KindApplication, Namespace: app.Namespace, Name: app.Name, UID: app.UID,
	}
}

// started tells once that an operation goes on for a while.
func (p *pass) started(state *v1alpha1.OperationState) {
	if p.session.run == nil || p.session.run.told {
		return
	}
	p.session.run.told = true
	p.log.Info("a sync has started", "revision", revisionText(state), "by", initiator(state))
	p.tell(false, "OperationStarted", initiator(state)+" started a sync to "+revisionText(state))
}

// ended tells how an operation ended, or that it is tried again.
func (p *pass) ended(state *v1alpha1.OperationState) {
	took := state.FinishedAt.Sub(state.StartedAt.Time)
	var did string
	if state.SyncResult != nil {
		did = operation.Describe(state.SyncResult.Resources)
	}
	facts := []any{"phase", string(state.Phase), "revision", revisionText(state), "by", initiator(state), "took", took.String(), "changed", did, "message", state.Message}
	switch state.Phase {
	case v1alpha1.OperationSucceeded:
		p.log.Info("synced", facts...)
		p.tell(false, "OperationCompleted", "sync to "+revisionText(state)+" succeeded: "+did)
	case v1alpha1.OperationRunning:
		p.log.Warn("a sync failed and is tried again", facts...)
		p.tell(true, "OperationRetried", state.Message)
	default:
		p.log.Warn("a sync failed", facts...)
		p.tell(true, "OperationCompleted", "sync to "+revisionText(state)+" failed: "+state.Message)
	}
	p.Metrics.operated(state.Phase)
}

// revisionText is what an operation is about, for people.
func revisionText(state *v1alpha1.OperationState) string {
	if state.SyncResult == nil {
		if sync := state.Operation.Sync; sync != nil && sync.Revision != "" {
			return sync.Revision
		}
		return "the newest revision"
	}
	return strings.Join(resultRevisions(state.SyncResult), ", ")
}

func initiator(state *v1alpha1.OperationState) string {
	by := state.Operation.InitiatedBy
	switch {
	case by.Automated:
		return "automated sync"
	case by.Username != "":
		return by.Username
	}
	return "somebody"
}
