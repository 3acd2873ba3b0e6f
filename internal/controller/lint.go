package controller

import (
	"cmp"
	"slices"
	"strings"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/manifest"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// Findings returns all problems, sorted by file and object; it is never nil.
// References to objects that are not in the manifests are warnings unless
// strict is set, because Secrets should not be in Git. It needs manifests: Set
// is nil for a cluster.
func (o *Offline) Findings(strict bool) []manifest.Finding {
	findings := append([]manifest.Finding{}, o.Set.Findings...)
	for _, refused := range o.engine.Refusals() {
		// The edge will order this certificate: there is nothing to repair.
		if refused.Reason == refusal.NotReady {
			continue
		}
		severity := finding.Error
		if refused.Reason == refusal.NotFound && !strict {
			severity = finding.Warning
		}
		findings = append(findings, manifest.Finding{
			Severity: severity, File: o.Set.Files[snapshot.RefOf(refused.Object)], Object: refused.Object.String(),
			Field: refused.Field, Reason: refused.Reason, Message: refused.Message,
		})
	}
	ignored := finding.Warning
	if strict {
		ignored = finding.Error
	}
	findings = append(findings, o.ignoredProtections(ignored)...)
	findings = append(findings, o.gatewayFindings(ignored)...)
	// The sort is stable: findings of one object keep their order.
	slices.SortStableFunc(findings, func(a, b manifest.Finding) int {
		return cmp.Or(strings.Compare(a.File, b.File), strings.Compare(a.Object, b.Object))
	})
	return findings
}

// Sites returns the Ingresses that this edge serves, and those of other
// controllers or classes, both sorted.
func (o *Offline) Sites() (ours, others []snapshot.Ref) {
	for namespace, name := range o.facts.Names(snapshot.Ingress) {
		ref := snapshot.Ref{Kind: snapshot.Ingress, Namespace: namespace, Name: name}
		if o.engine.Ours(ref) {
			ours = append(ours, ref)
		} else {
			others = append(others, ref)
		}
	}
	slices.SortFunc(ours, snapshot.Ref.Compare)
	slices.SortFunc(others, snapshot.Ref.Compare)
	return ours, others
}
