package runtimecmd

import (
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/install/release"
)

// showPlan prints what an operation will do: every object, and for an upgrade
// the changes in it. Values of Secrets are masked.
func showPlan(w io.Writer, plan *release.Plan) error {
	head := fmt.Sprintf("Release %s: install %s %s", plan.Place, plan.Chart, plan.Version)
	if !plan.Install() {
		head = fmt.Sprintf("Release %s: revision %d, %s %s", plan.Place, plan.Revision, plan.Chart, plan.Version)
		if plan.From != plan.Version {
			head += " in the place of " + plan.From
		}
	}
	_, _ = fmt.Fprintln(w, printer.Printable(head))
	rows, flush := printer.NewTable(w)
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
	if plan.Install() {
		return nil
	}
	return showDifferences(w, plan)
}

// showDifferences prints an upgrade object by object, as unified diff.
func showDifferences(w io.Writer, plan *release.Plan) error {
	for _, change := range plan.Changes {
		if change.Passing || change.Before == nil && change.After == nil {
			continue
		}
		before, after := inspect.MaskedPair(change.Before, change.After)
		old, err := objectYAML(before)
		if err != nil {
			return err
		}
		fresh, err := objectYAML(after)
		if err != nil {
			return err
		}
		text := inspect.UnifiedDiff(old, fresh)
		if text == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "\n%s\n%s\n", printer.Printable("=== "+change.ID.String()), printer.PrintableLines(strings.TrimSuffix(text, "\n"))); err != nil {
			return err
		}
	}
	return nil
}

// objectYAML formats an object, empty for none.
func objectYAML(object *unstructured.Unstructured) (string, error) {
	if object == nil {
		return "", nil
	}
	text, err := yaml.Marshal(object.Object)
	return string(text), err
}
