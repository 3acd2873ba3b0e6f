package rolloutcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/progressive"
)

func watchCommand(a *access) *cobra.Command {
	var timeout time.Duration
	command := &cobra.Command{
		Use:   "watch NAME",
		Short: "Show every change of a Rollout or a Release",
		Long: `Prints a line for every change of status, step, weight, traffic or decision, until it is
interrupted or the object is deleted. One that does not exist yet is waited for: the
agent makes a Release when it syncs the commit. To wait for the end of a release, use
slipway rollout status.`,
		Example: `  slipway rollout watch web -n shop
  slipway rollout watch web -n shop --timeout 10m`,
		Args: names(false), ValidArgsFunction: a.complete,
		RunE: func(command *cobra.Command, args []string) error {
			ctx, cancel := timeLimit(command.Context(), timeout)
			defer cancel()
			reader, state, err := a.await(ctx, command, args[0])
			if err != nil {
				return err
			}
			defer reader.Close()
			return watchState(ctx, command, reader, state.ID)
		},
	}
	command.Flags().DurationVar(&timeout, "timeout", 0, "stop after this time; 0 means never")
	return command
}

// lookAgain is the time between two looks for an object that does not exist yet.
const lookAgain = 500 * time.Millisecond

// await is find, and waits for an object that does not exist yet.
func (a *access) await(ctx context.Context, command *cobra.Command, name string) (*progressive.Reader, *progressive.State, error) {
	for noted := false; ; noted = true {
		reader, state, err := a.find(ctx, name)
		if absent := (*progressive.NotFoundError)(nil); !errors.As(err, &absent) {
			return reader, state, err
		}
		if !noted {
			printer.Note(command, "%s; waiting for it, and Ctrl-C ends that", err.Error())
		}
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return nil, nil, err
		}
	}
}

func statusCommand(a *access) *cobra.Command {
	var timeout time.Duration
	var follow bool
	command := &cobra.Command{
		Use:   "status NAME",
		Short: "Wait until a Rollout or a Release is done",
		Long: `Prints the status and waits until the new revision serves or was rolled back. The exit
code is 1 if it is degraded, rolled back or held, and on timeout.`,
		Example: `  slipway rollout status web -n shop --timeout 10m
  slipway rollout status web -n shop --watch=false`,
		Args: names(false), ValidArgsFunction: a.complete,
		RunE: func(command *cobra.Command, args []string) error {
			reader, state, err := a.find(command.Context(), args[0])
			if err != nil {
				return err
			}
			defer reader.Close()
			printed := &statusPrinter{w: command.OutOrStdout()}
			if !follow {
				_, err := printed.print(state)
				return err
			}
			ctx, cancel := timeLimit(command.Context(), timeout)
			defer cancel()
			err = reader.Follow(ctx, state.ID, printed.print)
			if errors.Is(err, inspect.ErrTimeout) {
				return fmt.Errorf("%s is not done after %s", state.ID, timeout)
			}
			return explain(reader, err)
		},
	}
	command.Flags().BoolVarP(&follow, "watch", "w", true, "wait until it is done")
	command.Flags().DurationVarP(&timeout, "timeout", "t", 0, "stop waiting after this time; 0 means never")
	return command
}

// timeLimit bounds a wait; 0 is without a bound. The cause distinguishes the
// timeout from Ctrl-C.
func timeLimit(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, limit, inspect.ErrTimeout)
}

// statusPrinter prints each status once. Numbers in its message that count up or down are
// not another status.
type statusPrinter struct {
	w    io.Writer
	last string
}

// counting are the numbers and durations of a message.
var counting = regexp.MustCompile(`[0-9][0-9.,]*(?:[hms][0-9.,hms]*)?`)

// print prints the status if it changed, and reports whether it is the last. A
// release that did not succeed is an error.
func (p *statusPrinter) print(state *progressive.State) (bool, error) {
	line := state.Phase
	if state.Message != "" {
		line += " - " + state.Message
	}
	if now := fmt.Sprint(counting.ReplaceAllString(line, "#"), shownStep(state), shownWeight(state.Weight)); now != p.last {
		p.last = now
		if _, err := fmt.Fprintln(p.w, printer.Printable(line)); err != nil {
			return false, err
		}
	}
	done, succeeded := state.Done()
	if done && !succeeded {
		return true, fmt.Errorf("%s is %s", state.ID, printer.WithMessage(state.Phase, state.Message))
	}
	return done, nil
}

// watchState prints changes until the context is done. The end of the timeout is
// no error: the changes up to then were the result.
func watchState(ctx context.Context, command *cobra.Command, reader *progressive.Reader, id progressive.ID) error {
	out := command.OutOrStdout()
	const columns = "%-8s  %-11s  %-5s  %-6s  %s\n"
	if _, err := fmt.Fprintf(out, columns, "TIME", "STATUS", "STEP", "WEIGHT", "MESSAGE"); err != nil {
		return err
	}
	last := ""
	err := reader.Follow(ctx, id, func(state *progressive.State) (bool, error) {
		message := printer.Printable(watchMessage(state))
		// The time is not part of the comparison: only changes are printed.
		now := fmt.Sprint(state.Phase, shownStep(state), shownWeight(state.Weight), message)
		if now == last {
			return false, nil
		}
		last = now
		_, err := fmt.Fprintf(out, columns, time.Now().Format(time.TimeOnly), printer.Printable(state.Phase), shownStep(state), shownWeight(state.Weight), message)
		return false, err
	})
	if absent := (*progressive.NotFoundError)(nil); errors.As(err, &absent) {
		printer.Note(command, "%s was deleted.", id.String())
		return nil
	}
	if errors.Is(err, inspect.ErrTimeout) || errors.Is(err, context.Canceled) {
		return nil
	}
	return explain(reader, err)
}

// watchMessage is the message of a state and, for a Release, what each revision
// served.
func watchMessage(state *progressive.State) string {
	text := state.Message
	for _, revision := range state.Revisions {
		counted := revision.Traffic
		if counted == nil || counted.Requests == 0 {
			continue
		}
		if text != "" {
			text += "; "
		}
		text += fmt.Sprintf("%s: %d requests, %.1f %% errors, p99 %s", revision.Name, counted.Requests,
			100*float64(counted.Errors)/float64(counted.Requests), shownMicros(counted.P99Micros))
	}
	return text
}
