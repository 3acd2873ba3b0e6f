package controller

import (
	"slices"

	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// serveTraefik enables the provider of Traefik's objects for manifests. In a cluster the
// options decide: an edge without the provider may not have the permissions for it.
func (o *Offline) serveTraefik() {
	if o.Options.Providers.KubernetesCRD != nil || len(o.Files) == 0 {
		return
	}
	options := *o.Options
	options.Providers.KubernetesCRD = &config.KubernetesCRD{}
	options.Providers.KubernetesCRD.SetDefaults()
	o.Options = &options
}

// TraefikSites returns the IngressRoutes that this edge serves, and those of other
// classes, both sorted.
func (o *Offline) TraefikSites() (ours, others []snapshot.Ref) {
	for _, kind := range snapshot.TraefikRoutes() {
		for namespace, name := range o.facts.Names(kind) {
			ref := snapshot.Ref{Kind: kind, Namespace: namespace, Name: name}
			if o.engine.Ours(ref) {
				ours = append(ours, ref)
			} else {
				others = append(others, ref)
			}
		}
	}
	slices.SortFunc(ours, snapshot.Ref.Compare)
	slices.SortFunc(others, snapshot.Ref.Compare)
	return ours, others
}
