package runtimecmd

import (
	"fmt"
	"io"
	"strings"

	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/install/release"
)

// showPlan prints the plan of an operation: every object, and for an upgrade
// the diff of each. Values of Secrets are masked. Cluster-scoped objects are
// marked, because they affect more than the namespace.
func showPlan(w io.Writer, plan *release.Plan) error {
	// The first line names the release and both versions; a change of values
	// alone keeps the version.
	head := fmt.Sprintf("Release %s: install %s %s", plan.Place, plan.Chart, plan.Version)
	if !plan.Install() {
		head = fmt.Sprintf("Release %s: revision %d, %s %s", plan.Place, plan.Revision, plan.Chart, plan.Version)
		if plan.From != plan.Version {
			head += " in the place of " + plan.From
		}
	}
	_, _ = fmt.Fprintln(w, printer.Printable(head))
	rows, flush := printer.NewTable(w)
	// The summary counts actions, so that an unexpected deletion stands out.
	counts := map[release.Action]int{}
	for _, change := range plan.Changes {
		scope := ""
		switch {
		case change.Passing:
			scope = "(while it runs)"
		case change.ClusterScoped():
			scope = "(of the cluster)"
		}
		// Hooks exist during the operation only and are not counted.
		if !change.Passing {
			counts[change.Action]++
		}
		rows.Row("  "+string(change.Action), change.ID.String(), scope)
	}
	if err := flush(); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(w, "%d to create, %d to change, %d to delete\n", counts[release.Create], counts[release.Update], counts[release.Delete])
	for _, remark := range plan.Remarks {
		_, _ = fmt.Fprintln(w, "note:", printer.Printable(remark))
	}
	// The objects of an installation are all new: a diff would repeat the
	// chart.
	if plan.Install() {
		return nil
	}
	return showDifferences(w, plan)
}

// showDifferences prints an upgrade object by object, as unified diff. Objects
// without a difference are left out.
func showDifferences(w io.Writer, plan *release.Plan) error {
	for _, change := range plan.Changes {
		if change.Passing || change.Before == nil && change.After == nil {
			continue
		}
		// Masking works on the pair: a changed secret value must still show as
		// a difference.
		text, err := inspect.UnifiedDiff(inspect.MaskedPair(change.Before, change.After))
		if err != nil {
			return err
		}
		if text == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "\n%s\n%s\n", printer.Printable("=== "+change.ID.String()), printer.PrintableLines(strings.TrimSuffix(text, "\n"))); err != nil {
			return err
		}
	}
	return nil
}
