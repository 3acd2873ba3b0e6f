package migratecmd

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/cli/prompt"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/migrate"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/migration"
)

// outcome is what the forms other than the table show.
type outcome struct {
	// Skipped are Applications that were not taken over, as the report has them.
	Skipped []*migration.Object `json:"skipped,omitempty"`
	// Moved are those that were, in either direction.
	Moved []migrate.Report `json:"moved"`
}

// moveGroups takes the Applications over that are ready, group by group. The
// exit code is 1 if some are not.
func (f *argocdFlags) moveGroups(command *cobra.Command, cluster *kube.Cluster, report *migration.Report) error {
	result := outcome{Moved: []migrate.Report{}}
	var ready []tracking.App
	for _, object := range report.Applications() {
		if object.Ready(f.force) {
			ready = append(ready, object.ID())
		} else {
			result.Skipped = append(result.Skipped, object)
		}
	}
	if err := f.printSkipped(command, report, result.Skipped); err != nil {
		return err
	}
	number := 0
	for group := range slices.Chunk(ready, f.groupSize) {
		number++
		moved, err := f.moveGroup(command, f.group(command, cluster, group), fmt.Sprintf("Take over group %d, %s?", number, applications(len(group))))
		result.Moved = append(result.Moved, moved...)
		if err != nil {
			return err
		}
	}
	return f.finish(command, &result, "taken over")
}

// printSkipped shows why objects are left out. The other forms have them in the
// result.
func (f *argocdFlags) printSkipped(command *cobra.Command, report *migration.Report, skipped []*migration.Object) error {
	if f.output.Form != printer.FormTable || len(skipped) == 0 {
		return nil
	}
	return f.print(command, &migration.Report{Namespace: report.Namespace, Objects: skipped, Warnings: report.Warnings})
}

// noteWrites shows writes as they are made.
func noteWrites(command *cobra.Command) func(migrate.Write) {
	return func(write migrate.Write) {
		printer.Note(command, "%s %s: %s", write.Verb, write.Object, cmp.Or(write.Why, "done"))
	}
}

// group returns a group whose writes are shown as they are made.
func (f *argocdFlags) group(command *cobra.Command, cluster *kube.Cluster, apps []tracking.App) *migration.Group {
	return &migration.Group{
		Cluster: cluster, ControlNamespace: f.to, Apps: apps, Force: f.force, Wait: f.timeout, Report: noteWrites(command),
	}
}

// moveGroup checks a group, asks, and moves it. With --dry-run it shows the
// writes.
func (f *argocdFlags) moveGroup(command *cobra.Command, group *migration.Group, question string) ([]migrate.Report, error) {
	if f.dryRun {
		return nil, group.Plan(command.Context())
	}
	for _, app := range group.Apps {
		printer.Note(command, "%s", app)
	}
	if err := prompt.New(command).Confirm(question, f.agreed); err != nil {
		return nil, err
	}
	return group.TakeOver(command.Context())
}

// giveBack returns the selected Applications.
func (f *argocdFlags) giveBack(command *cobra.Command, cluster *kube.Cluster, selects func(tracking.App, *inspect.Application) bool) error {
	moved, err := migrate.ListMoved(command.Context(), cluster, f.to)
	if err != nil {
		return err
	}
	var chosen []tracking.App
	for _, one := range moved {
		if selects(one.From, one.App) {
			chosen = append(chosen, one.From)
			printer.Note(command, "%s", one.From)
		}
	}
	if len(chosen) == 0 {
		return errors.New("no such Application was moved from Argo CD: there is nothing to return")
	}
	if f.dryRun {
		printer.Note(command, "Nothing was changed.")
		return nil
	}
	if err := prompt.New(command).Confirm("Return "+applications(len(chosen))+" to Argo CD?", f.agreed); err != nil {
		return err
	}
	result := outcome{}
	if result.Moved, err = f.group(command, cluster, chosen).GiveBack(command.Context()); err != nil {
		return err
	}
	return f.finish(command, &result, "returned")
}

// finish prints the result. An Application that stays, and a resource that
// changed while it was moved, give exit code 1.
func (f *argocdFlags) finish(command *cobra.Command, result *outcome, done string) error {
	if f.output.Form != printer.FormTable {
		if err := f.output.Encode(command.OutOrStdout(), result); err != nil {
			return err
		}
	}
	resources, changed := 0, 0
	for _, report := range result.Moved {
		for _, resource := range report.Resources {
			resources++
			if !resource.Untouched() {
				changed++
			}
		}
	}
	printer.Note(command, "%s %s. Untouched resources: %d of %d.", applications(len(result.Moved)), done, resources-changed, resources)
	switch {
	case changed > 0:
		return exit.Status{Code: exit.Failure, Err: errors.New(finding.Count(changed, "resource", "resources") + " changed meanwhile: another tool writes to the cluster")}
	case len(result.Skipped) > 0:
		return exit.Status{Code: exit.Failure, Err: errors.New(applications(len(result.Skipped)) + " not taken over: see the report")}
	}
	return nil
}

// applications counts Applications.
func applications(number int) string { return finding.Count(number, "Application", "Applications") }
