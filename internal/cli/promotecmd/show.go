package promotecmd

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/cli/printer"
)

func listCommand(a *access) *cobra.Command {
	var all bool
	command := &cobra.Command{
		Use:   "list",
		Short: "List Promotions, the newest first",
		Example: `  slipway promote list -n argocd
  slipway promote list -A -o json`,
		Args: cobra.NoArgs,
	}
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML, printer.FormName)
	command.Flags().BoolVarP(&all, "all-namespaces", "A", false, "list those of all namespaces")
	command.RunE = func(command *cobra.Command, _ []string) error {
		connected, err := a.open()
		if err != nil {
			return err
		}
		defer connected.Close()
		found, err := connected.list(command.Context(), all)
		if err != nil {
			return err
		}
		slices.SortStableFunc(found, func(x, y entry) int { return y.CreationTimestamp.Compare(x.CreationTimestamp.Time) })
		// A hint on standard error and no error: an empty list is a valid result.
		if len(found) == 0 && !all {
			printer.Note(command, "There are no Promotions in the namespace %s: look in all with -A, or choose one with -n.", connected.namespace)
		}
		return printEntries(command.OutOrStdout(), found, output, all)
	}
	return command
}

// printEntries prints a list.
func printEntries(w io.Writer, found []entry, output *printer.Output, all bool) error {
	switch output.Form {
	case printer.FormJSON, printer.FormYAML:
		items := []any{}
		for _, one := range found {
			items = append(items, one.object.Object)
		}
		return output.Encode(w, map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	case printer.FormName:
		for _, one := range found {
			if _, err := fmt.Fprintln(w, one.Name); err != nil {
				return err
			}
		}
		return nil
	}
	if len(found) == 0 {
		return nil
	}
	header := []string{"NAME", "PRODUCT", "VERSION", "STATUS", "DONE", "MESSAGE"}
	if all {
		header = append([]string{"NAMESPACE"}, header...)
	}
	return printer.List(w, header, found, func(one entry) []string {
		done := 0
		for _, step := range one.Status.Steps {
			if step.Phase == v1alpha1.StepSucceeded {
				done++
			}
		}
		cells := []string{one.Name, one.Spec.Product, printer.OrDash(one.Status.Version), printer.OrDash(one.Status.Phase), fmt.Sprintf("%d/%d", done, len(one.Status.Steps)), one.Status.Message}
		if all {
			cells = append([]string{one.Namespace}, cells...)
		}
		return cells
	})
}

func getCommand(a *access) *cobra.Command {
	command := &cobra.Command{
		Use:   "get NAME",
		Short: "Show a Promotion: version, environments, commits, and what it waits for",
		Example: `  slipway promote get web-1 -n argocd
  slipway promote get web-1 -n argocd -o yaml`,
		Args: oneName, ValidArgsFunction: a.complete,
	}
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML, printer.FormName)
	command.RunE = func(command *cobra.Command, args []string) error {
		connected, err := a.open()
		if err != nil {
			return err
		}
		defer connected.Close()
		found, err := connected.get(command.Context(), args[0])
		if err != nil {
			return err
		}
		out := command.OutOrStdout()
		switch output.Form {
		case printer.FormJSON, printer.FormYAML:
			return output.Encode(out, found.object.Object)
		case printer.FormName:
			_, err := fmt.Fprintln(out, found.Name)
			return err
		}
		return printEntry(out, found)
	}
	return command
}

// printEntry prints a Promotion as text, with its environments as a table.
func printEntry(w io.Writer, of entry) error {
	facts, flush := printer.NewTable(w)
	facts.Row("Name:", of.Name)
	facts.Row("Namespace:", of.Namespace)
	facts.Row("Product:", of.Spec.Product)
	facts.Row("Flow:", printer.OrDash(of.Status.Flow))
	facts.Row("Version:", printer.OrDash(of.Status.Version))
	if from := of.Status.Source; from != nil {
		facts.Row("Source:", fmt.Sprintf("%s in %s at %s", from.Application, from.Environment, printer.ShortRevision(from.Revision)))
	}
	facts.Row("Started by:", printer.OrDash(of.Spec.By))
	facts.Row("Status:", printer.WithMessage(printer.OrDash(of.Status.Phase), of.Status.Message))
	if err := flush(); err != nil {
		return err
	}
	return printer.Section(w, []string{"ENVIRONMENT", "STATUS", "ACTION", "COMMIT", "SINCE", "APPROVED BY", "MESSAGE"}, of.Status.Steps, func(step v1alpha1.PromotionStep) []string {
		since := step.FinishedAt
		if since == nil {
			since = step.StartedAt
		}
		return []string{step.Environment, step.Phase, step.Action, shownCommits(step.Writes), printer.Time(since), printer.OrDash(step.ApprovedBy), step.Message}
	})
}

// shownCommits lists the commits of a step.
func shownCommits(writes []v1alpha1.PromotionWrite) string {
	text := ""
	for _, one := range writes {
		if one.Commit != "" {
			if text != "" {
				text += ", "
			}
			text += printer.ShortRevision(one.Commit)
		}
	}
	return printer.OrDash(text)
}
