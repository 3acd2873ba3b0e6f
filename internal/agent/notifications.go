package agent

import (
	"context"
	"strings"

	"slipway.dev/slipway/internal/gitops/notify"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe/trafficreport"
)

// newNotifications returns the controller of notifications.
func (a *agent) newNotifications() *notify.Controller {
	// The name of a replica has a random part for the Lease. Without it a process that is
	// started again in the same Pod is recognised.
	host, _, _ := strings.Cut(a.options.Identity, "_")
	return notify.New(notify.Options{
		Cluster: a.options.Cluster, ControlNamespace: a.options.ControlNamespace, Namespaces: a.namespaces(),
		Evaluator: a.renderer, Sources: a.sources, GlobalProjects: a.settings.globals.Load, Outbound: a.options.Outbound, Identity: host,
		Reporter: kube.Reporter{Controller: controllerName, Instance: a.options.Identity},
		Observe:  a.metrics.notified, Log: a.log.With("controller", "notifications"),
		Edges: a.servedReports(),
	})
}

// servedReports reads the reports of the edges; nil without a runtime, which has their
// addresses and secret.
func (a *agent) servedReports() notify.EdgeReports {
	if a.runtime == nil {
		return nil
	}
	return func(ctx context.Context) ([]*trafficreport.Report, error) {
		found, err := a.runtime.traffic.Reports(ctx)
		reports := make([]*trafficreport.Report, len(found))
		for i, one := range found {
			reports[i] = one.Report
		}
		return reports, err
	}
}
