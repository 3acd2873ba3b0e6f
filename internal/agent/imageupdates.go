package agent

import (
	"path/filepath"

	"slipway.dev/slipway/internal/gitops/imageupdate"
	"slipway.dev/slipway/internal/gitops/webhook"
	"slipway.dev/slipway/internal/kube"
)

// newImageUpdates returns the controller that updates images; nil if it is off.
func (a *agent) newImageUpdates() *imageupdate.Controller {
	if !a.options.Features.ImageUpdates {
		return nil
	}
	folder := ""
	if a.options.CacheDir != "" {
		folder = filepath.Join(a.options.CacheDir, "image-updates")
	}
	return imageupdate.New(imageupdate.Options{
		Cluster: a.options.Cluster, Sources: a.sources, ControlNamespace: a.options.ControlNamespace, Namespaces: a.namespaces(),
		Interval: a.options.Features.ImageInterval, Folder: folder,
		// What was committed is synced at once, as after a push of a person.
		Pushed:   func(repoURL string) { a.onPush(webhook.Push{RepositoryURLs: []string{repoURL}}) },
		Reporter: kube.Reporter{Controller: controllerName, Instance: a.options.Identity},
		Log:      a.log.With("controller", "images"),
	})
}
