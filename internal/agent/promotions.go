package agent

import (
	"context"
	"path/filepath"

	"slipway.dev/slipway/internal/gitops/promotion"
	"slipway.dev/slipway/internal/gitops/webhook"
	"slipway.dev/slipway/internal/kube"
)

// newPromotions returns the controller of Promotions. There is no option for it: without
// a Promotion it does nothing, and who may create one is a matter of the cluster's
// roles.
func (a *agent) newPromotions() *promotion.Controller {
	folder := ""
	if a.options.CacheDir != "" {
		folder = filepath.Join(a.options.CacheDir, "promotions")
	}
	return promotion.New(promotion.Options{
		Cluster: a.options.Cluster, Sources: a.sources, ControlNamespace: a.options.ControlNamespace, Namespaces: a.namespaces(),
		Folder: folder, Traffic: a.promotionTraffic(),
		// What was committed is synced at once, as after a push of a person.
		Pushed:   func(repoURL string) { a.onPush(webhook.Push{RepositoryURLs: []string{repoURL}}) },
		Reporter: kube.Reporter{Controller: controllerName, Instance: a.options.Identity},
		Log:      a.log.With("controller", "promotions"),
	})
}

// promotionTraffic reads the reports of the edges; nil without a runtime, which has their
// addresses and secret.
func (a *agent) promotionTraffic() promotion.EdgeReports {
	if a.runtime == nil {
		return nil
	}
	return func(ctx context.Context) ([]promotion.EdgeReport, error) {
		found, err := a.runtime.traffic.Reports(ctx)
		reports := make([]promotion.EdgeReport, len(found))
		for i, one := range found {
			reports[i] = promotion.EdgeReport{Edge: one.Edge, Report: one.Report}
		}
		return reports, err
	}
}
