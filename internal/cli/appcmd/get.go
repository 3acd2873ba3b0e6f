package appcmd

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// appGetCommand returns the command that shows one Application: the object
// itself as JSON or YAML, or a summary of its spec and status.
func appGetCommand(access *appAccess) *cobra.Command {
	command := &cobra.Command{
		Use:   "get APP",
		Short: "Show an Application: conditions, resources with sync and health, the last operation",
		Example: `  slipway app get shop -n argocd
  slipway app get argocd/shop -o yaml`,
		Args: oneName,
	}
	output := printer.NewOutput(command, printer.FormWide, printer.FormJSON, printer.FormYAML, printer.FormName)
	command.RunE = access.with(func(command *cobra.Command, backend appBackend, app *application) error {
		out := command.OutOrStdout()
		switch output.Form {
		case printer.FormJSON, printer.FormYAML:
			return output.Encode(out, inspect.ShownApplication(app).Object)
		case printer.FormName:
			_, err := fmt.Fprintln(out, qualifiedName(app.Object))
			return err
		}
		// A runtime of an older version has no releases, and a user may lack the
		// right to list them: the rest is shown all the same.
		releases, _ := backend.releases(command.Context(), app)
		return printApplication(out, app, releases, backend.owner(command.Context(), app), output.Form == printer.FormWide)
	})
	return command
}

// printApplication prints an Application as text: spec and status first, then
// conditions, resources and results as tables. Empty tables are left out.
func printApplication(w io.Writer, app *application, releases []string, owner string, wide bool) error {
	facts, flush := printer.NewTable(w)
	facts.Row("Name:", app.Name)
	facts.Row("Namespace:", app.Namespace)
	facts.Row("Project:", app.Spec.ProjectName())
	facts.Row("Destination:", shownDestination(app.Spec.Destination))
	for i, source := range app.Spec.AllSources() {
		facts.Row(fmt.Sprintf("Source%s:", ordinal(app, i)), shownSource(&source))
	}
	facts.Row("Sync policy:", shownPolicy(app.Spec.SyncPolicy))
	if owner != "" {
		facts.Row("Owner:", owner)
	}
	sync := inspect.ShownSync(&app.Status)
	if revision := shownRevision(app.Status.Sync.Revision, app.Status.Sync.Revisions); revision != "" {
		sync += " at " + revision
	}
	facts.Row("Sync:", sync)
	facts.Row("Health:", printer.WithMessage(inspect.ShownHealth(&app.Status), app.Status.Health.Message))
	for _, line := range releases {
		facts.Row("Release:", line)
	}
	for _, row := range operationRows(app) {
		facts.Row(row...)
	}
	for _, address := range app.Status.Summary.ExternalURLs {
		facts.Row("URL:", address)
	}
	if err := flush(); err != nil {
		return err
	}
	for _, part := range []func(io.Writer, *application, bool) error{printConditions, printResources, printResults} {
		if err := part(w, app, wide); err != nil {
			return err
		}
	}
	return nil
}

// ordinal returns the number of a source, empty for an Application with one.
func ordinal(app *application, i int) string {
	if len(app.Spec.Sources) < 2 {
		return ""
	}
	return fmt.Sprintf(" %d", i+1)
}

// shownDestination formats a destination. The server wins over the name of the
// cluster. An empty one is the cluster of the agent.
func shownDestination(destination v1alpha1.ApplicationDestination) string {
	cluster := cmp.Or(destination.Server, destination.Name, "this cluster")
	if destination.Namespace == "" {
		return cluster
	}
	return cluster + ", namespace " + destination.Namespace
}

// operationRows returns the rows for the requested operation, and for the one
// that runs or was the last. Both can be there: a request waits in the
// Application until the agent takes it up.
func operationRows(app *application) [][]string {
	var rows [][]string
	if app.Operation != nil {
		rows = append(rows, []string{"Requested:", shownOperation(app.Operation)})
	}
	state := app.Status.OperationState
	if state == nil {
		return rows
	}
	// A phase that is not completed belongs to the operation that runs now.
	title := "Last operation:"
	when := "started " + printer.Time(&state.StartedAt)
	if state.Phase.Completed() {
		when += ", ended " + printer.Time(state.FinishedAt)
	} else {
		title = "Operation:"
	}
	rows = append(rows,
		[]string{title, printer.WithMessage(string(state.Phase), state.Message)},
		[]string{"", shownOperation(&state.Operation) + ", " + when})
	if state.RetryCount > 0 {
		rows = append(rows, []string{"", "retried " + countOf(int(state.RetryCount), "time")})
	}
	return rows
}

// countOf returns a number with its noun: 1 object, 2 objects. It forms plurals
// with an s alone.
func countOf(number int, noun string) string {
	if number == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", number, noun)
}

// shownOperation describes an operation in words: revision, options and
// initiator. An operation without a sync part is shown as a plain sync.
func shownOperation(operation *v1alpha1.Operation) string {
	words := []string{"sync"}
	if sync := operation.Sync; sync != nil {
		if revision := shownRevision(sync.Revision, sync.Revisions); revision != "" {
			words = append(words, "to "+revision)
		}
		if sync.DryRun {
			words = append(words, "as a dry run")
		}
		if sync.Prune {
			words = append(words, "with prune")
		}
		if len(sync.Resources) > 0 {
			words = append(words, "of "+countOf(len(sync.Resources), "object"))
		}
	}
	switch by := operation.InitiatedBy; {
	case by.Automated:
		words = append(words, "by policy")
	case by.Username != "":
		words = append(words, "by "+by.Username)
	}
	return strings.Join(words, " ")
}

// printConditions prints the conditions as a table. The blank line before it
// separates it from the summary.
func printConditions(w io.Writer, app *application, _ bool) error {
	return printer.Section(w, []string{"CONDITION", "SINCE", "MESSAGE"}, app.Status.Conditions, func(condition v1alpha1.ApplicationCondition) []string {
		return []string{condition.Type, printer.Time(condition.LastTransitionTime), condition.Message}
	})
}

// printResources prints the resources of the status with sync and health, in
// the order of the status. Wide adds the sync wave and the message of the
// health.
func printResources(w io.Writer, app *application, wide bool) error {
	if len(app.Status.Resources) == 0 {
		return nil
	}
	rows, flush := printer.NewTable(w)
	_, _ = fmt.Fprintln(w)
	header := []string{"KIND", "NAMESPACE", "NAME", "SYNC", "HEALTH"}
	if wide {
		header = append(header, "WAVE", "MESSAGE")
	}
	rows.Row(header...)
	for i := range app.Status.Resources {
		resource := &app.Status.Resources[i]
		// Kinds without a health check have no health at all.
		health, message := "-", ""
		if resource.Health != nil {
			health, message = printer.OrDash(string(resource.Health.Status)), resource.Health.Message
		}
		row := []string{shownKind(resource), printer.OrDash(resource.Namespace), resource.Name, inspect.ShownResourceSync(resource), health}
		if wide {
			row = append(row, fmt.Sprint(resource.SyncWave), message)
		}
		rows.Row(row...)
	}
	return flush()
}

// shownKind formats a kind as kubectl does, with the group behind it. The core
// group is empty.
func shownKind(resource *v1alpha1.ResourceStatus) string {
	if resource.Group == "" {
		return resource.Kind
	}
	return resource.Kind + "." + resource.Group
}

// printResults prints the results of the last operation that add to the state
// of the resources: failures and hooks, or all of them if wide.
func printResults(w io.Writer, app *application, wide bool) error {
	state := app.Status.OperationState
	if state == nil || state.SyncResult == nil {
		return nil
	}
	var shown []*v1alpha1.ResourceResult
	for i := range state.SyncResult.Resources {
		result := &state.SyncResult.Resources[i]
		if wide || result.Status == v1alpha1.ResultSyncFailed || result.HookType != "" {
			shown = append(shown, result)
		}
	}
	return printResultTable(w, shown)
}

// printResultTable prints results of an operation. A hook's phase takes the
// place of the sync code, because a hook is run and not synced.
func printResultTable(w io.Writer, results []*v1alpha1.ResourceResult) error {
	return printer.Section(w, []string{"PHASE", "OBJECT", "RESULT", "MESSAGE"}, results, func(result *v1alpha1.ResourceResult) []string {
		code := string(result.Status)
		if result.HookType != "" {
			code = string(result.HookPhase)
		}
		key := tracking.Key{Group: result.Group, Kind: result.Kind, Namespace: result.Namespace, Name: result.Name}
		return []string{printer.OrDash(string(result.SyncPhase)), key.String(), printer.OrDash(code), result.Message}
	})
}
