package rolloutcmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/gitops/progressive"
)

// simpleAction is an action without flags, for one or more objects.
type simpleAction struct {
	action                     progressive.Action
	short, long, example, done string
}

func simpleActions() []simpleAction {
	return []simpleAction{
		{
			action: progressive.Abort, short: "Take all requests back to the stable revision", done: "aborted",
			long: `Stops a release and takes all requests back to the stable revision. The new revision
stays in the spec of a Rollout, which tries it again with slipway rollout retry. A
Release is held: the next commit, or slipway rollout retry, starts again.`,
			example: "  slipway rollout abort web -n shop",
		},
		{
			action: progressive.Pause, short: "Stay at the current step", done: "paused",
			long:    "Pauses a release at its current step and share, until slipway rollout resume or promote.",
			example: "  slipway rollout pause web -n shop",
		},
		{
			action: progressive.Resume, short: "Go on after a pause", done: "resumed",
			long:    "Ends the pause of a release, without skipping its current step.",
			example: "  slipway rollout resume web -n shop",
		},
		{
			action: progressive.Retry, short: "Start an aborted release again", done: "retried",
			long:    "Starts a release again that was aborted or rolled back, from its first step.",
			example: "  slipway rollout retry web -n shop",
		},
	}
}

// command returns the command of an action.
func (s simpleAction) command(a *access) *cobra.Command {
	return &cobra.Command{
		Use: string(s.action) + " NAME...", Short: s.short, Long: s.long, Example: s.example,
		Args: names(true), ValidArgsFunction: a.complete,
		RunE: func(command *cobra.Command, args []string) error {
			for _, name := range args {
				if err := a.act(command, name, s.action, s.done); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// act requests an action of one object and prints that.
func (a *access) act(command *cobra.Command, name string, action progressive.Action, done string) error {
	reader, state, err := a.find(command.Context(), name)
	if err != nil {
		return err
	}
	defer reader.Close()
	if err := reader.Act(command.Context(), state, action); err != nil {
		return explain(reader, err)
	}
	if state.Kind == progressive.KindRelease {
		// The controller decides: it ignores a request that does not fit the phase.
		done = "requested: " + string(action)
	}
	_, err = fmt.Fprintf(command.OutOrStdout(), "%s %s\n", printer.Printable(argument(state.ID)), done)
	return err
}

func promoteCommand(a *access) *cobra.Command {
	var full bool
	command := &cobra.Command{
		Use:   "promote NAME",
		Short: "Go on to the next step, or to the end",
		Long: `Ends the pause of a release, or skips its current step if it is not paused. With --full,
all remaining steps, pauses and analyses are skipped.`,
		Example: `  slipway rollout promote web -n shop
  slipway rollout promote web -n shop --full`,
		Args: names(false), ValidArgsFunction: a.complete,
		RunE: func(command *cobra.Command, args []string) error {
			if full {
				return a.act(command, args[0], progressive.PromoteFull, "fully promoted")
			}
			return a.act(command, args[0], progressive.Promote, "promoted")
		},
	}
	command.Flags().BoolVar(&full, "full", false, "skip all remaining steps, pauses and analyses")
	return command
}

func undoCommand(a *access) *cobra.Command {
	var revision int64
	command := &cobra.Command{
		Use:   "undo NAME",
		Short: "Write an earlier revision into a Rollout",
		Long: `Writes the template of an earlier revision into a Rollout, or into the Deployment that it
refers to. That revision is then released like a new one. Where Git manages the Rollout,
revert the commit instead: the next sync would write the newer template again.

A Release has no earlier revisions: abort it, or revert the commit.`,
		Example: `  slipway rollout undo web -n shop
  slipway rollout undo web -n shop --to-revision 3`,
		Args: names(false), ValidArgsFunction: a.complete,
		RunE: func(command *cobra.Command, args []string) error {
			reader, state, err := a.find(command.Context(), args[0])
			if err != nil {
				return err
			}
			defer reader.Close()
			if state.Kind != progressive.KindRollout {
				return fmt.Errorf("%s is of a plain Deployment, whose revisions are commits: abort it with slipway rollout abort %s, or revert the commit", state.ID, argument(state.ID))
			}
			number, err := reader.Undo(command.Context(), state, revision)
			switch {
			case errors.Is(err, progressive.ErrUnchanged):
				_, err = fmt.Fprintf(command.OutOrStdout(), "%s has the template of revision %d already\n", printer.Printable(argument(state.ID)), number)
			case err == nil:
				_, err = fmt.Fprintf(command.OutOrStdout(), "%s goes back to revision %d\n", printer.Printable(argument(state.ID)), number)
			default:
				err = explain(reader, err)
			}
			return err
		},
	}
	command.Flags().Int64Var(&revision, "to-revision", 0, "number of the revision; 0 is the one before the newest")
	return command
}
