package appcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/printer"
)

// appHistoryCommand returns the command that lists the past syncs with the IDs
// that rollback takes.
func appHistoryCommand(access *appAccess) *cobra.Command {
	command := &cobra.Command{
		Use:     "history APP",
		Short:   "List past syncs, to roll back to",
		Example: `  slipway app history shop`,
		Args:    oneName,
	}
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML)
	command.RunE = access.with(func(command *cobra.Command, _ appBackend, app *application) error {
		if output.Form != printer.FormTable {
			history := app.Status.History
			// An empty list and not null, so that scripts can iterate.
			if history == nil {
				history = []v1alpha1.RevisionHistory{}
			}
			return output.Encode(command.OutOrStdout(), history)
		}
		return printHistory(command.OutOrStdout(), app)
	})
	return command
}

// printHistory prints the history as a table, the oldest first, as the status
// has it. An Application without a sync gets a sentence instead.
func printHistory(w io.Writer, app *application) error {
	if len(app.Status.History) == 0 {
		_, err := fmt.Fprintf(w, "%s has not been synced yet.\n", app.ID())
		return err
	}
	rows, flush := printer.NewTable(w)
	rows.Row("ID", "DEPLOYED", "REVISION", "BY", "SOURCE")
	for i := range app.Status.History {
		entry := &app.Status.History[i]
		// Automated syncs have no user.
		by := entry.InitiatedBy.Username
		if entry.InitiatedBy.Automated {
			by = "policy"
		}
		rows.Row(
			strconv.FormatInt(entry.ID, 10), printer.Time(&entry.DeployedAt),
			shownRevision(entry.Revision, entry.Revisions), printer.OrDash(by), printer.OrDash(historySource(entry)),
		)
	}
	return flush()
}

// historySource formats the source, or all sources, of an entry. An entry has
// one of the two, depending on the spec at the time of the sync.
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

// rollbackFlags are the options of a rollback. id is an argument and set when
// the command runs.
type rollbackFlags struct {
	id     int64
	prune  bool
	dryRun bool
	// revert and pullRequest write the rollback to Git.
	revert, pullRequest bool
	// controlNamespace has the credentials of repositories without a platform.
	controlNamespace string
	wait             operationFlags
}

// appRollbackCommand returns the command that syncs to the revision and source
// of a past sync. Applications with automated sync are held there.
func appRollbackCommand(access *appAccess) *cobra.Command {
	given := &rollbackFlags{}
	command := &cobra.Command{
		Use:   "rollback APP ID",
		Short: "Roll back to an earlier sync",
		Long: `Syncs to the revision and the source of a past sync; slipway app history lists
them. Git does not change, so the Application is OutOfSync afterwards: fix Git as
well. An Application with automated sync is held at that revision until the next
commit that changes its objects, or until slipway app sync.

With --revert the files of that sync are committed to the branch that the
Application syncs from, and with --pr they are proposed by a pull request: the path
of each source, its Helm values files, and the paths of the annotation
argocd.argoproj.io/manifest-generate-paths. The commit is pushed with the credential
of the repository.`,
		Example: `  slipway app rollback shop 3
  slipway app rollback shop 3 --pr`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return errors.New("write it as slipway app rollback APP ID, with the ID of a past sync: slipway app history APP lists them")
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error {
			var err error
			// The form of the ID is checked here; whether the history has it,
			// the backend checks.
			if given.id, err = strconv.ParseInt(args[1], 10, 64); err != nil {
				return exit.UsageError{Err: fmt.Errorf("%q is no ID of a past sync: slipway app history %s lists them", args[1], args[0])}
			}
			request := func(ctx context.Context, backend appBackend, app *application) (v1alpha1.Info, error) {
				return backend.rollback(ctx, app, given)
			}
			if err := runOperation(command, access, args[0], request, given.wait); err != nil || !given.revert && !given.pullRequest {
				return err
			}
			return given.writeToGit(command, access, args[0])
		},
	}
	command.Flags().BoolVar(&given.prune, "prune", false, "delete objects that did not exist at that sync")
	command.Flags().BoolVar(&given.dryRun, "dry-run", false, "show what would be done without changing anything")
	command.Flags().BoolVar(&given.revert, "revert", false, "commit the files of that sync to the branch of the Application")
	command.Flags().BoolVar(&given.pullRequest, "pr", false, "open a pull request with the files of that sync")
	command.Flags().StringVar(&given.controlNamespace, "control-namespace", "argocd", "control namespace of the agent, which has the credentials")
	command.MarkFlagsMutuallyExclusive("revert", "pr", "dry-run")
	given.wait.add(command)
	return command
}

// writeToGit writes the files of the past sync to Git, after the cluster has them: a
// repository that cannot be reached does not stop a rollback.
func (f *rollbackFlags) writeToGit(command *cobra.Command, access *appAccess, name string) error {
	ctx := command.Context()
	backend, app, err := access.find(ctx, name)
	if err != nil {
		return err
	}
	defer backend.close()
	written, err := backend.revert(ctx, app, f, command.ErrOrStderr())
	for _, one := range written {
		if one.PullRequest != "" {
			_, _ = fmt.Fprintf(command.OutOrStdout(), "Opened %s, which reverts %s.\n", one.PullRequest, app.ID())
			continue
		}
		_, _ = fmt.Fprintf(command.OutOrStdout(), "Committed %.7s to the branch %s of %s, which reverts %s.\n", one.Commit, one.Branch, one.RepoURL, app.ID())
	}
	if err != nil {
		return fmt.Errorf("the rollback is done, but Git is not changed: %w", err)
	}
	return nil
}

// appTerminateCommand returns the command that terminates the running
// operation. It does not wait: the agent ends the operation when it sees the
// request.
func appTerminateCommand(access *appAccess) *cobra.Command {
	return &cobra.Command{
		Use:   "terminate APP",
		Short: "Terminate the running operation",
		Long: `Terminates the running operation of an Application. Applied objects stay; running
hooks are deleted according to their deletion policies.`,
		Example: `  slipway app terminate shop`,
		Args:    oneName,
		RunE: access.with(func(command *cobra.Command, backend appBackend, app *application) error {
			if err := backend.terminate(command.Context(), app); err != nil {
				return err
			}
			_, err := fmt.Fprintf(command.OutOrStdout(), "The operation of %s is being ended.\n", app.ID())
			return err
		}),
	}
}
