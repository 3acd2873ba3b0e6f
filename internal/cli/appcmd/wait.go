package appcmd

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/gitops/inspect"
)

// waitFor is the goal of a wait. All goals that are set have to hold at the
// same time.
type waitFor struct {
	sync, health, operation bool
	// suspended accepts Suspended as healthy.
	suspended bool
}

// appWaitCommand returns the command that waits until an Application reaches
// the goal. It reads the status only: a push that no agent has noticed yet is
// not waited for.
func appWaitCommand(access *appAccess) *cobra.Command {
	var goal waitFor
	timeout := 5 * time.Minute
	command := &cobra.Command{
		Use:   "wait APP",
		Short: "Wait until an Application is synced and healthy",
		Long: `Waits until an Application is Synced, Healthy, and no operation runs, or for the
conditions of the flags. Pending conditions are shown meanwhile. The exit code is 1
on timeout.

It reads the status of the Application. An agent learns about a push from a webhook
or from its next poll; to wait for a push, sync first.`,
		Example: `  slipway app wait shop --health --timeout 2m
  slipway app wait shop --operation`,
		Args: oneName,
		RunE: func(command *cobra.Command, args []string) error {
			// Without a goal all three are meant.
			if !goal.sync && !goal.health && !goal.operation {
				goal.sync, goal.health, goal.operation = true, true, true
			}
			// Read once before the wait: a wrong name fails at once and with a
			// hint, and not after the timeout.
			backend, app, err := access.find(command.Context(), args[0]) // for a clear error
			if err != nil {
				return err
			}
			defer backend.close()
			waiting, cancel := timeLimit(command.Context(), timeout)
			defer cancel()
			printed := &progress{w: command.ErrOrStderr()}
			app, err = backend.wait(waiting, app.ID(), func(app *application) (string, error) {
				missing := goal.missing(app)
				if missing != "" {
					printed.print("waiting: " + missing)
				}
				return missing, nil
			})
			if errors.Is(err, errTimeout) {
				return fmt.Errorf("%s is not there after %s: %s", args[0], timeout, goal.missing(app))
			}
			if err != nil {
				return err
			}
			return printWaited(command.OutOrStdout(), app)
		},
	}
	flags := command.Flags()
	flags.BoolVar(&goal.sync, "sync", false, "wait until it is Synced")
	flags.BoolVar(&goal.health, "health", false, "wait until it is Healthy")
	flags.BoolVar(&goal.suspended, "suspended", false, "with --health: also accept Suspended")
	flags.BoolVar(&goal.operation, "operation", false, "wait until no operation is requested or running")
	flags.DurationVar(&timeout, "timeout", timeout, "stop waiting after this time; 0 means never")
	return command
}

// missing describes the goals that are not reached yet; it is empty if all are.
// It is called for every event of the watch and for the error of a timeout, for
// which app may be nil.
func (g *waitFor) missing(app *application) string {
	if app == nil {
		return "no response from the API server"
	}
	var missing []string
	state := app.Status.OperationState
	switch {
	case !g.operation:
	// A request that waits comes first: the state beside it is that of an older
	// operation.
	case app.Operation != nil:
		missing = append(missing, "an operation was requested and has not started")
	case state != nil && !state.Phase.Completed():
		missing = append(missing, "the operation: "+printer.WithMessage(string(state.Phase), state.Message))
	}
	if g.sync && app.Status.Sync.Status != v1alpha1.SyncSynced {
		missing = append(missing, "sync: "+printer.WithMessage(inspect.ShownSync(&app.Status), outOfSync(app)))
	}
	if g.health && !g.healthy(app.Status.Health.Status) {
		missing = append(missing, "health: "+printer.WithMessage(inspect.ShownHealth(&app.Status), unhealthy(app)))
	}
	return strings.Join(missing, "; ")
}

// healthy reports whether a health code is enough for the goal. Suspended
// counts only on request: a paused rollout is not finished.
func (g *waitFor) healthy(code v1alpha1.HealthCode) bool {
	return code == v1alpha1.Healthy || g.suspended && code == v1alpha1.Suspended
}

// shownObjects is how many objects one line of progress names.
const shownObjects = 3

// outOfSync names the first objects that differ from Git, or the condition that
// keeps the agent from comparing, such as a repository that cannot be fetched.
func outOfSync(app *application) string {
	var names []string
	for i := range app.Status.Resources {
		if resource := &app.Status.Resources[i]; resource.Status == v1alpha1.SyncOutOfSync {
			names = append(names, inspect.KeyOfResource(resource).String())
		}
	}
	// Without a comparison there are no resources to name.
	if len(names) == 0 && len(app.Status.Conditions) > 0 {
		return app.Status.Conditions[0].Message
	}
	return firstOf(names)
}

// unhealthy returns the message of the health, or else names the first objects
// that are not healthy.
func unhealthy(app *application) string {
	if app.Status.Health.Message != "" {
		return app.Status.Health.Message
	}
	var names []string
	for i := range app.Status.Resources {
		resource := &app.Status.Resources[i]
		// Resources without health, such as a ConfigMap, never keep an
		// Application from being healthy.
		if resource.Health != nil && resource.Health.Status != v1alpha1.Healthy && resource.Health.Status != "" {
			names = append(names, inspect.KeyOfResource(resource).String()+" is "+printer.WithMessage(string(resource.Health.Status), resource.Health.Message))
		}
	}
	return firstOf(names)
}

// firstOf joins the first shownObjects names and counts the rest.
func firstOf(names []string) string {
	if len(names) > shownObjects {
		return strings.Join(names[:shownObjects], ", ") + fmt.Sprintf(" and %d more", len(names)-shownObjects)
	}
	return strings.Join(names, ", ")
}

// printWaited prints the state that was reached, with its revision, on standard
// output.
func printWaited(w io.Writer, app *application) error {
	words := []string{inspect.ShownSync(&app.Status), inspect.ShownHealth(&app.Status)}
	if revision := shownRevision(app.Status.Sync.Revision, app.Status.Sync.Revisions); revision != "" {
		words = append(words, "at "+revision)
	}
	_, err := fmt.Fprintf(w, "%s is %s\n", app.ID(), strings.Join(words, ", "))
	return err
}
