package controller

import (
	"cmp"
	"slices"
	"strings"

	"slipway.dev/slipway/internal/ingress/snapshot"
)

// Finding is one problem of a manifest.
type Finding struct {
	// Severity is error, or warning for what may be right in the cluster.
	Severity string          `json:"severity"`
	File     string          `json:"file,omitempty"`
	Object   string          `json:"object,omitempty"`
	Field    string          `json:"field,omitempty"`
	Reason   snapshot.Reason `json:"reason,omitempty"`
	Message  string          `json:"message"`
}

const (
	// LintError and LintWarning are the severities of a Finding.
	LintError   = "error"
	lintWarning = "warning"
)

// Findings returns all problems, sorted by file and object. References to
// objects that are not in the manifests are warnings unless strict is set:
// Secrets should not be in Git.
func (o *Offline) Findings(strict bool) []Finding {
	findings := []Finding{}
	for _, finding := range o.Set.Findings {
		findings = append(findings, Finding{
			Severity: LintError, File: finding.File, Object: finding.Object.String(), Message: finding.Message,
		})
	}
	for _, refusal := range o.engine.Refusals() {
		// A certificate that the edge will order is nothing to repair.
		if refusal.Reason == snapshot.NotReady {
			continue // a certificate that the edge will fetch is nothing to repair
		}
		severity := LintError
		if refusal.Reason == snapshot.NotFound && !strict {
			severity = lintWarning
		}
		findings = append(findings, Finding{
			Severity: severity, File: o.Set.Files[refusal.Object], Object: refusal.Object.String(),
			Field: refusal.Field, Reason: refusal.Reason, Message: refusal.Message,
		})
	}
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.File, b.File), strings.Compare(a.Object, b.Object))
	})
	return findings
}

// Sites returns the Ingresses that this edge serves, and those of others.
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
