package agent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"connectrpc.com/connect"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/promotion"
	"slipway.dev/slipway/internal/gitops/webhook"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/wire/platformv1"
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
		Folder: folder, Traffic: a.promotionTraffic(), Remote: a.remoteApplications(),
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

// remoteApplications reads the Applications of other runtimes from the platform; nil
// without one.
func (a *agent) remoteApplications() promotion.RemoteApplications {
	if a.runtime == nil {
		return nil
	}
	return func(ctx context.Context, runtime, product string) ([]*v1alpha1.Application, error) {
		response, err := a.runtime.membership.Client().ReadApplications(ctx, connect.NewRequest(&platformv1.ReadApplicationsRequest{Runtime: runtime, Product: product}))
		var coded *connect.Error
		switch connect.CodeOf(err) {
		case connect.CodePermissionDenied, connect.CodeNotFound, connect.CodeFailedPrecondition, connect.CodeUnimplemented:
			if errors.As(err, &coded) {
				return nil, refusal.New("spec.runtime", refusal.NotAllowed, "%s", coded.Message())
			}
		}
		if err != nil {
			return nil, fmt.Errorf("the platform does not respond about the Applications of the runtime %s: %w", runtime, err)
		}
		// What was true before it went offline says nothing about what it has now.
		if response.Msg.GetStale() {
			return nil, fmt.Errorf("the runtime %s is offline, or sends its Applications again", runtime)
		}
		var apps []*v1alpha1.Application
		for _, one := range response.Msg.GetApplications() {
			apps = append(apps, reportedApplication(one))
		}
		return apps, nil
	}
}

// reportedApplication converts what a runtime reported of an Application.
func reportedApplication(given *platformv1.Application) *v1alpha1.Application {
	made := &v1alpha1.Application{}
	made.Namespace, made.Name, made.Labels = given.GetNamespace(), given.GetName(), given.GetLabels()
	made.UID = types.UID(given.GetUid())
	// A report has the name of the cluster, or its address if it has none.
	made.Spec.Destination.Namespace = given.GetDestinationNamespace()
	if strings.Contains(given.GetCluster(), "://") {
		made.Spec.Destination.Server = given.GetCluster()
	} else {
		made.Spec.Destination.Name = given.GetCluster()
	}
	for i, address := range given.GetRepoUrls() {
		source := v1alpha1.ApplicationSource{RepoURL: address}
		if i == 0 {
			source.Path, source.TargetRevision = given.GetPath(), given.GetTargetRevision()
			if given.GetChart() {
				source.Path, source.Chart = "", given.GetPath()
			}
		}
		made.Spec.Sources = append(made.Spec.Sources, source)
	}
	made.Status.Sync.Status, made.Status.Sync.Revision = v1alpha1.SyncStatusCode(given.GetSync()), given.GetRevision()
	made.Status.Health.Status = v1alpha1.HealthCode(given.GetHealth())
	if given.GetHeld() != "" {
		made.Status.Held = &v1alpha1.HeldRevision{Message: given.GetHeld(), HeldAt: metav1.NewTime(given.GetHeldAt().AsTime())}
	}
	return made
}
