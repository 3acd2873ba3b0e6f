package cli

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

func appHistoryCommand(access *appAccess) *cobra.Command {
	command := &cobra.Command{
		Use:     "history APP",
		Short:   "List past syncs, to roll back to",
		Example: `  slipway app history shop`,
		Args:    oneName,
	}
	output := newOutputFlag(command, outputJSON, outputYAML)
	command.RunE = func(command *cobra.Command, args []string) error {
		if err := output.check(); err != nil {
			return err
		}
		cluster, err := access.open()
		if err != nil {
			return err
		}
		defer cluster.Close()
		app, err := cluster.get(command.Context(), args[0])
		if err != nil {
			return err
		}
		if output.form != outputTable {
			history := app.Status.History
			if history == nil {
				history = []v1alpha1.RevisionHistory{}
			}
			return output.encode(command.OutOrStdout(), history)
		}
		return printHistory(command.OutOrStdout(), app)
	}
	return command
}

func printHistory(w io.Writer, app *application) error {
	if len(app.Status.History) == 0 {
		_, err := fmt.Fprintf(w, "%s has not been synced yet.\n", app.id())
		return err
	}
	rows, flush := newTable(w)
	rows.row("ID", "DEPLOYED", "REVISION", "BY", "SOURCE")
	for i := range app.Status.History {
		entry := &app.Status.History[i]
		by := entry.InitiatedBy.Username
		if entry.InitiatedBy.Automated {
			by = "policy"
		}
		rows.row(
			strconv.FormatInt(entry.ID, 10), shownTime(&entry.DeployedAt),
			shownRevision(entry.Revision, entry.Revisions), orNone(by), orNone(historySource(entry)),
		)
	}
	return flush()
}

func historySource(entry *v1alpha1.RevisionHistory) string {
	if entry.Source != nil {
		return shownSource(entry.Source)
	}
	var sources []string
	for i := range entry.Sources {
		sources = append(sources, shownSource(&entry.Sources[i]))
	}
	return strings.Join(sources, "; ")
}

func appRollbackCommand(access *appAccess) *cobra.Command {
	var prune, dryRun bool
	var wait operationFlags
	command := &cobra.Command{
		Use:   "rollback APP ID",
		Short: "Sync to what was synced before",
		Long: `Syncs to the revision and the source of a past sync; slipway app history lists
them. Git does not change, so the Application is OutOfSync afterwards: repair
Git as well. Where syncs are automated they would undo it, so that has to be
turned off first.`,
		Example: `  slipway app rollback shop 3`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return errors.New("slipway app rollback takes an Application and the ID of a past sync: slipway app history lists them")
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error {
			id, err := strconv.ParseInt(args[1], 10, 64)
			if err != nil {
				return usageError{fmt.Errorf("%q is no ID of a past sync: slipway app history lists them", args[1])}
			}
			return runSync(command, access, args[0], func(app *application) (*v1alpha1.SyncOperation, error) {
				sync, err := rollbackTo(app, id)
				if err == nil {
					sync.Prune, sync.DryRun = prune, dryRun
				}
				return sync, err
			}, wait)
		},
	}
	command.Flags().BoolVar(&prune, "prune", false, "delete what was not there then")
	command.Flags().BoolVar(&dryRun, "dry-run", false, "change nothing, and say what would be done")
	wait.add(command)
	return command
}

// rollbackTo is the sync to a past one.
func rollbackTo(app *application, id int64) (*v1alpha1.SyncOperation, error) {
	if app.Spec.SyncPolicy.IsAutomated() {
		return nil, fmt.Errorf("%s is synced automatically, which would undo the rollback: turn it off first, with spec.syncPolicy.automated.enabled: false", app.id())
	}
	var known []string
	for i := range app.Status.History {
		entry := &app.Status.History[i]
		if entry.ID != id {
			known = append(known, strconv.FormatInt(entry.ID, 10))
			continue
		}
		return &v1alpha1.SyncOperation{
			Revision: entry.Revision, Revisions: entry.Revisions, Source: entry.Source, Sources: entry.Sources,
		}, nil
	}
	return nil, fmt.Errorf("%s has no past sync %d: there are %s", app.id(), id, orNone(strings.Join(known, ", ")))
}

func appTerminateCommand(access *appAccess) *cobra.Command {
	return &cobra.Command{
		Use:   "terminate APP",
		Short: "End the operation that runs",
		Long: `Ends the operation of an Application that runs. What was applied stays; hooks
that run are deleted as their policies say.`,
		Example: `  slipway app terminate shop`,
		Args:    oneName,
		RunE: func(command *cobra.Command, args []string) error {
			cluster, err := access.open()
			if err != nil {
				return err
			}
			defer cluster.Close()
			app, err := cluster.get(command.Context(), args[0])
			if err != nil {
				return err
			}
			app, err = cluster.change(command.Context(), app, func(app *application) (map[string]any, error) {
				state := app.Status.OperationState
				switch {
				case app.Operation != nil && (state == nil || state.Phase.Completed()):
					return map[string]any{"operation": nil}, nil // it has not begun
				case state == nil || state.Phase.Completed():
					return nil, fmt.Errorf("no operation of %s runs: there is nothing to end", app.id())
				}
				return map[string]any{"status": map[string]any{"operationState": map[string]any{"phase": v1alpha1.OperationTerminating}}}, nil
			})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(command.OutOrStdout(), "The operation of %s is being ended.\n", app.id())
			return err
		},
	}
}
