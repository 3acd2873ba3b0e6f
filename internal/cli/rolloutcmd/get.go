package rolloutcmd

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/gitops/progressive"
)

func getCommand(a *access) *cobra.Command {
	var follow bool
	command := &cobra.Command{
		Use:   "get NAME",
		Short: "Show a Rollout or a Release: step, share and traffic of its revisions, decision",
		Example: `  slipway rollout get web -n shop
  slipway rollout get release/web -n shop -o yaml`,
		Args: names(false), ValidArgsFunction: a.complete,
	}
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML, printer.FormName)
	command.Flags().BoolVarP(&follow, "watch", "w", false, "show every change until interrupted, as slipway rollout watch does")
	command.RunE = func(command *cobra.Command, args []string) error {
		reader, state, err := a.find(command.Context(), args[0])
		if err != nil {
			return err
		}
		defer reader.Close()
		if err := reader.AddRevisions(command.Context(), state); err != nil {
			return explain(reader, err)
		}
		out := command.OutOrStdout()
		switch output.Form {
		case printer.FormJSON, printer.FormYAML:
			return output.Encode(out, state.Object.Object)
		case printer.FormName:
			_, err := fmt.Fprintln(out, argument(state.ID))
			return err
		}
		if err := printState(out, state); err != nil || !follow {
			return err
		}
		_, _ = fmt.Fprintln(out) // the next write has the error
		return watchState(command.Context(), command, reader, state.ID)
	}
	return command
}

// printState prints a Rollout or a Release as text, with its revisions as a table.
func printState(w io.Writer, state *progressive.State) error {
	facts, flush := printer.NewTable(w)
	facts.Row("Name:", state.Name)
	facts.Row("Namespace:", state.Namespace)
	facts.Row("Kind:", string(state.Kind))
	facts.Row("Strategy:", printer.OrDash(state.Strategy))
	facts.Row("Status:", printer.WithMessage(state.Phase, state.Message))
	if state.Steps > 0 {
		facts.Row("Step:", shownStep(state))
	}
	if len(state.StepNames) > 0 {
		facts.Row("Steps:", strings.Join(markedSteps(state), ", "))
	}
	if state.Weight != nil {
		facts.Row("Weight:", shownWeight(state.Weight))
	}
	if numbers := state.Replicas; numbers != nil {
		facts.Row("Replicas:", fmt.Sprintf("%d desired, %d current, %d updated, %d ready, %d available",
			numbers.Desired, numbers.Current, numbers.Updated, numbers.Ready, numbers.Available))
	}
	if decision := state.Decision; decision != nil {
		facts.Row("Decision:", printer.WithMessage(joined(decision.Outcome, decision.Reason), decision.Message))
	}
	if err := flush(); err != nil {
		return err
	}
	if state.Kind == progressive.KindRollout {
		return printReplicaSets(w, state.Revisions)
	}
	return printTraffic(w, state.Revisions)
}

// markedSteps puts the current step in brackets.
func markedSteps(state *progressive.State) []string {
	marked := append([]string(nil), state.StepNames...)
	if int(state.Step) < len(marked) {
		marked[state.Step] = "[" + marked[state.Step] + "]"
	}
	return marked
}

func printReplicaSets(w io.Writer, revisions []progressive.Revision) error {
	return printer.Section(w, []string{"REVISION", "ROLE", "REPLICASET", "WEIGHT", "READY", "IMAGES"}, revisions, func(revision progressive.Revision) []string {
		return []string{strconv.FormatInt(revision.Number, 10), printer.OrDash(revision.Name), revision.ReplicaSet,
			shownWeight(revision.Weight), fmt.Sprintf("%d/%d", revision.Ready, revision.Pods), strings.Join(revision.Images, ", ")}
	})
}

// printTraffic prints both revisions of a Release with what the edges counted.
func printTraffic(w io.Writer, revisions []progressive.Revision) error {
	return printer.Section(w, []string{"REVISION", "HASH", "COMMIT", "WEIGHT", "READY", "REQUESTS", "ERRORS", "P50", "P99"}, revisions, func(revision progressive.Revision) []string {
		cells := []string{revision.Name, revision.Hash, printer.OrDash(printer.ShortRevision(revision.Commit)), shownWeight(revision.Weight)}
		counted := revision.Traffic
		if counted == nil {
			return append(cells, "-", "-", "-", "-", "-")
		}
		return append(cells, strconv.Itoa(int(counted.Ready)), strconv.FormatInt(counted.Requests, 10), shownErrors(counted),
			shownMicros(counted.P50Micros), shownMicros(counted.P99Micros))
	})
}

// shownErrors formats a number of errors with its share of the requests.
func shownErrors(counted *v1alpha1.ReleaseRevisionStatus) string {
	if counted.Requests == 0 {
		return "-"
	}
	return fmt.Sprintf("%d (%.1f %%)", counted.Errors, 100*float64(counted.Errors)/float64(counted.Requests))
}

func shownMicros(micros int64) string {
	if micros == 0 {
		return "-"
	}
	latency := time.Duration(micros) * time.Microsecond
	if latency > time.Millisecond {
		latency = latency.Round(100 * time.Microsecond)
	}
	return latency.String()
}

func shownStep(state *progressive.State) string {
	if state.Steps == 0 {
		return "-"
	}
	return fmt.Sprintf("%d/%d", state.Step, state.Steps)
}

func shownWeight(weight *int32) string {
	if weight == nil {
		return "-"
	}
	return strconv.Itoa(int(*weight))
}

func shownReady(state *progressive.State) string {
	if state.Replicas == nil {
		return "-"
	}
	return fmt.Sprintf("%d/%d", state.Replicas.Ready, state.Replicas.Desired)
}

// joined puts the second word in parentheses, if there is one.
func joined(word, second string) string {
	if second == "" {
		return word
	}
	return word + " (" + second + ")"
}

// argument formats an object as the commands accept it.
func argument(id progressive.ID) string {
	return strings.ToLower(string(id.Kind)) + "/" + id.Name
}
