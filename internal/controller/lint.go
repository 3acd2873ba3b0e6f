package controller

import (
	"cmp"
	"slices"
	"strings"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// Finding is one problem of a manifest, or of an object in a cluster.
type Finding struct {
	// Severity is error, or warning for a reference that may exist in the
	// cluster.
	Severity finding.Severity `json:"severity"`
	File     string           `json:"file,omitempty"`
	Object   string           `json:"object,omitempty"`
	Field    string           `json:"field,omitempty"`
	Reason   refusal.Reason   `json:"reason,omitempty"`
	Message  string           `json:"message"`
}

// Findings returns all problems, sorted by file and object; it is never nil.
// References to objects that are not in the manifests are warnings unless
// strict is set, because Secrets should not be in Git. It needs manifests: Set
// is nil for a cluster.
func (o *Offline) Findings(strict bool) []Finding {
	findings := []Finding{}
	for _, found := range o.Set.Findings {
		findings = append(findings, Finding{
			Severity: finding.Error, File: found.File, Object: found.Object.String(), Message: found.Message,
		})
	}
	for _, refused := range o.engine.Refusals() {
		// The edge will order this certificate: there is nothing to repair.
		if refused.Reason == refusal.NotReady {
			continue
		}
		severity := finding.Error
		if refused.Reason == refusal.NotFound && !strict {
			severity = finding.Warning
		}
		findings = append(findings, Finding{
			Severity: severity, File: o.Set.Files[snapshot.RefOf(refused.Object)], Object: refused.Object.String(),
			Field: refused.Field, Reason: refused.Reason, Message: refused.Message,
		})
	}
	// The sort is stable: findings of one object keep their order.
	slices.SortStableFunc(findings, func(a, b Finding) int {
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
