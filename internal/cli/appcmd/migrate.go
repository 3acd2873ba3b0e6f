package appcmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/kubeflags"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/cli/prompt"
	"slipway.dev/slipway/internal/gitops/migrate"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/install/release"
	"slipway.dev/slipway/internal/kube"
)

// migrateFlags select the Application that is migrated, and its new place. One
// command has one, so that output is bound to the same flags.
type migrateFlags struct {
	to, name                   string
	back, dryRun, force, agree bool
	timeout                    time.Duration
	output                     *printer.Output
}

// appMigrateCommand returns the command that migrates an Application from Argo
// CD to the runtime (R29), or lists the candidates. It always works on the
// cluster: the Application to move is not one of a runtime yet.
func appMigrateCommand(access *appAccess) *cobra.Command {
	given := &migrateFlags{}
	command := &cobra.Command{
		Use:   "migrate [NAMESPACE/NAME]",
		Short: "Migrate an Application from Argo CD to the runtime, without touching its resources",
		Long: `Without a name, lists the Applications of other namespaces than the runtime's, and
the obstacles to migrating each.

With a name, migrates that Application: Argo CD's Application is suspended (no
automated sync, no cascading deletion, no reconciliation), the runtime's is created
without automated sync, the resources get the runtime's tracking label and annotation
in addition to Argo CD's, the runtime compares them with Git, Argo CD's Application is
deleted without its resources, and the runtime's gets its automated sync and
finalizers. Only a label and an annotation of resources are written; at the end their
uids and generations are compared. Run the command again to resume an interrupted
migration; --back returns the Application from every step.

It works on the cluster itself, with your own permissions.`,
		Example: `  slipway app migrate
  slipway app migrate argocd/shop --dry-run
  slipway app migrate argocd/shop
  slipway app migrate argocd/shop --back`,
		Args: cobra.MaximumNArgs(1),
	}
	flags := command.Flags()
	flags.StringVar(&given.to, "to", release.DefaultNamespace, "namespace of the runtime, to which the Application is migrated")
	flags.StringVar(&given.name, "name", "", "name of the Application in the runtime (default the same)")
	flags.BoolVar(&given.back, "back", false, "return the Application to Argo CD, unchanged")
	flags.BoolVar(&given.dryRun, "dry-run", false, "show all writes without making them")
	flags.BoolVar(&given.force, "force", false, "also migrate Applications that are not synced, or that a parent Application has in Git")
	flags.BoolVar(&given.agree, "yes", false, "do not ask for confirmation")
	flags.DurationVar(&given.timeout, "timeout", 2*time.Minute, "time for the runtime to compare the Application with Git")
	given.output = printer.NewOutput(command, printer.FormJSON, printer.FormYAML)
	command.RunE = func(command *cobra.Command, args []string) error {
		// Refused and not ignored: the user would believe that the runtime of
		// the flag is the target.
		if access.platform.Url != "" || access.platform.Context != "" || access.platform.Runtime != "" {
			return exit.UsageError{Err: errors.New("an Application is moved in its cluster, and not through a platform: choose with --kubeconfig and --context")}
		}
		cluster, err := kubeflags.Connect(access.choice)
		if err != nil {
			return err
		}
		defer cluster.Close()
		if len(args) == 0 {
			return given.list(command, cluster, access.namespace)
		}
		return given.run(command, cluster, access.namespace, args[0])
	}
	return command
}

// list shows which Applications can be migrated, and the findings that prevent
// the others. The first finding is on the line of the Application, the rest on
// lines of their own.
func (f *migrateFlags) list(command *cobra.Command, cluster *kube.Cluster, namespace string) error {
	found, err := migrate.List(command.Context(), cluster, namespace, f.to)
	if err != nil {
		return err
	}
	if f.output.Form != printer.FormTable {
		return f.output.Encode(command.OutOrStdout(), map[string]any{"applications": found})
	}
	rows, flush := printer.NewTable(command.OutOrStdout())
	rows.Row("APPLICATION", "SYNC", "HEALTH", "CAN MOVE", "WHY NOT")
	for _, each := range found {
		state := "yes"
		switch {
		// An interrupted migration holds the Application; running the command
		// again resumes it.
		case each.Held:
			state = "has begun"
		case len(each.Findings) > 0:
			state = "no"
		}
		why := ""
		if len(each.Findings) > 0 {
			why = each.Findings[0].String()
		}
		rows.Row(each.App.String(), each.Sync, each.Health, state, why)
		for _, more := range each.Findings[min(1, len(each.Findings)):] {
			rows.Row("", "", "", "", more.String())
		}
	}
	if err := flush(); err != nil {
		return err
	}
	if len(found) == 0 {
		printer.Note(command, "There are no Applications but those of the namespace %s.", f.to)
	}
	return nil
}

// options returns the options of one migration. The control namespace of the
// runtime is the target namespace. The name stays unless --name is set.
func (f *migrateFlags) options(cluster *kube.Cluster, from tracking.App) migrate.Options {
	to := tracking.App{Namespace: f.to, Name: from.Name}
	if f.name != "" {
		to.Name = f.name
	}
	return migrate.Options{
		Cluster: cluster, From: from, To: to, ControlNamespace: f.to, Force: f.force, DryRun: f.dryRun, Wait: f.timeout,
	}
}

// run migrates one Application, or returns it. It runs twice: as a dry run that
// collects every write for the prompt, and for real after the user has
// confirmed. With --dry-run it stops after the first.
func (f *migrateFlags) run(command *cobra.Command, cluster *kube.Cluster, namespace, name string) error {
	from, err := applicationPlace(namespace, name)
	if err != nil {
		return err
	}
	// The namespace of the kubeconfig is no default here: a wrong guess would
	// move another Application.
	if from.Namespace == "" {
		return exit.UsageError{Err: fmt.Errorf("%q is in which namespace? write NAMESPACE/NAME, such as argocd/%s", name, name)}
	}
	// Both directions have the same options and report, so the rest is shared.
	move := migrate.Run
	if f.back {
		move = migrate.Back
	}
	options := f.options(cluster, from)
	planned := []migrate.Write{}
	// The dry run reports the exact writes, so that the prompt shows each
	// change before it is made.
	options.DryRun, options.Report = true, func(write migrate.Write) { planned = append(planned, write) }
	report, err := move(command.Context(), options)
	if err != nil {
		return err
	}
	if f.dryRun {
		if f.output.Form != printer.FormTable {
			return f.output.Encode(command.OutOrStdout(), map[string]any{"writes": planned, "report": report})
		}
		f.printWrites(command, planned)
		printer.Note(command, "Nothing was changed.")
		return nil
	}
	// With --yes the writes are only reported as they are made.
	if !f.agree {
		f.printWrites(command, planned)
	}
	if err := prompt.New(command).Confirm("Make these changes to "+finding.Count(len(report.Resources), "resource", "resources")+" and the Applications?", f.agree); err != nil {
		return err
	}
	options.DryRun, options.Report = false, func(write migrate.Write) {
		printer.Note(command, "%s %s: %s", write.Verb, write.Object, reasonOf(write))
	}
	report, err = move(command.Context(), options)
	if err != nil {
		return f.interrupted(err, from)
	}
	return f.finish(command, report)
}

// reasonOf returns the reason of a write for its progress line.
func reasonOf(write migrate.Write) string {
	if write.Why == "" {
		return "done"
	}
	return write.Why
}

// interrupted adds to the error of Ctrl-C how to go on or back: every state in
// between can be resumed. Other errors pass unchanged.
func (f *migrateFlags) interrupted(err error, from tracking.App) error {
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("interrupted: give the command again to go on, or slipway app migrate %s --back: %w", from, err)
	}
	return err
}

// printWrites prints the planned writes with their bodies, one write per line
// and its body below.
func (f *migrateFlags) printWrites(command *cobra.Command, writes []migrate.Write) {
	for _, write := range writes {
		_, _ = fmt.Fprintf(command.OutOrStdout(), "%s %s", write.Verb, printer.Printable(write.Object))
		if write.Why != "" {
			_, _ = fmt.Fprintf(command.OutOrStdout(), ": %s", printer.Printable(write.Why))
		}
		_, _ = fmt.Fprintln(command.OutOrStdout())
		if len(write.Body) > 0 {
			_, _ = fmt.Fprintf(command.OutOrStdout(), "  %s\n", printer.Printable(strings.TrimSpace(string(write.Body))))
		}
	}
}

// finish prints UID and generation of every resource before and after: equal
// ones prove that the migration has not touched it. A changed one gives exit
// code 1, although the Application has moved, because another tool writes the
// same resources.
func (f *migrateFlags) finish(command *cobra.Command, report migrate.Report) error {
	if f.output.Form != printer.FormTable {
		return f.output.Encode(command.OutOrStdout(), map[string]any{"report": report})
	}
	rows, flush := printer.NewTable(command.OutOrStdout())
	rows.Row("RESOURCE", "UID", "GENERATION", "")
	changed := 0
	for _, resource := range report.Resources {
		// UID and generation are compared and not the content: labels and
		// annotations of the migration change neither.
		state := "untouched"
		if !resource.Untouched() {
			changed++
			state = fmt.Sprintf("now %s, generation %d", resource.UIDAfter, resource.GenerationAfter)
		}
		if resource.Left != "" {
			state += "; " + resource.Left
		}
		rows.Row(resource.Name, string(resource.UID), fmt.Sprint(resource.Generation), state)
	}
	if err := flush(); err != nil {
		return err
	}
	where := report.To
	if f.back {
		where = report.From
	}
	printer.Note(command, "The Application is %s now. Untouched resources: %d of %d.", where, len(report.Resources)-changed, len(report.Resources))
	if changed > 0 {
		return exit.Status{Code: exit.Failure, Err: errors.New(finding.Count(changed, "resource", "resources") + " changed while the Application was moved: another tool writes to the cluster")}
	}
	return nil
}
