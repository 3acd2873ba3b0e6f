package agent

import (
	"context"
	"time"

	rollouts "slipway.dev/slipway/api/rollouts/v1alpha1"
	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/gitops/analysis"
	"slipway.dev/slipway/internal/gitops/rollout"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
)

// analysisInterval is how often the cluster is checked for AnalysisRuns and for a
// controller of Argo Rollouts.
const analysisInterval = 30 * time.Second

// runAnalysis carries out AnalysisRuns while the cluster has the kind, and no controller
// of Argo Rollouts: two would measure everything twice.
func (a *agent) runAnalysis(ctx context.Context) error {
	logged := ""
	for ctx.Err() == nil {
		reason, err := a.analysisBlocked(ctx)
		switch {
		case err != nil:
			reason = kube.FailureKind(err)
			if reason != logged {
				a.log.Warn("AnalysisRuns are not carried out", observe.KeyError, err)
			}
		case reason == "":
			a.analyze(ctx)
			logged = ""
			continue
		case reason != logged && reason != noAnalysis:
			a.log.Warn("AnalysisRuns are not carried out", observe.KeyReason, reason)
		}
		logged = reason
		_ = backoff.Sleep(ctx, backoff.Jitter(analysisInterval, 0.1)) // the loop ends with the context
	}
	return nil
}

// noAnalysis is the reason of most clusters, which is not logged.
const noAnalysis = "the cluster has no AnalysisRuns"

// analysisBlocked returns why AnalysisRuns are not carried out; empty if they are.
func (a *agent) analysisBlocked(ctx context.Context) (string, error) {
	served, err := a.options.Cluster.Serves(ctx, rollouts.APIVersion, rollouts.AnalysisRunResource().Resource)
	if err != nil {
		return "", err
	}
	if !served {
		return noAnalysis, nil
	}
	return rollout.Other(ctx, a.options.Cluster, a.options.Destinations)
}

// analyze carries out AnalysisRuns until something blocks it or the context is done.
func (a *agent) analyze(ctx context.Context) {
	running, stop := context.WithCancel(ctx)
	defer stop()
	controller := analysis.NewController(analysis.Options{
		Cluster: a.options.Cluster, Namespaces: a.options.Destinations, Evaluator: a.renderer, Outbound: a.options.Outbound,
		Edges: a.edgeReports(), Reporter: kube.Reporter{Controller: controllerName, Instance: a.options.Identity}, Log: a.log,
	})
	ended := make(chan error, 1)
	go func() { ended <- controller.Run(running) }()
	a.log.Info("carrying out AnalysisRuns")
	for {
		select {
		case err := <-ended:
			if ctx.Err() == nil {
				a.log.Warn("the controller of AnalysisRuns ended; restarting", observe.KeyError, err)
				_ = backoff.Sleep(ctx, termRestartDelay)
			}
			return
		case <-time.After(analysisInterval):
		}
		// An API server that is away is no reason to stop.
		if reason, err := a.analysisBlocked(running); err == nil && reason != "" {
			stop()
			<-ended
			return
		}
	}
}

// edgeReports reads the reports of the edges; nil without a runtime, which has their
// addresses and secret.
func (a *agent) edgeReports() analysis.EdgeReports {
	if a.runtime == nil {
		return nil
	}
	return func(ctx context.Context) ([]analysis.EdgeReport, error) {
		found, err := a.runtime.traffic.Reports(ctx)
		reports := make([]analysis.EdgeReport, len(found))
		for i, one := range found {
			reports[i] = analysis.EdgeReport{Edge: one.Edge, Report: one.Report}
		}
		return reports, err
	}
}
