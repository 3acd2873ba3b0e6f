package rolloutcmd

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/gitops/progressive"
)

func listCommand(a *access) *cobra.Command {
	var all bool
	command := &cobra.Command{
		Use:   "list",
		Short: "List Rollouts and Releases",
		Example: `  slipway rollout list -n shop
  slipway rollout list -A -o json`,
		Args: cobra.NoArgs,
	}
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML, printer.FormName)
	command.Flags().BoolVarP(&all, "all-namespaces", "A", false, "list those of all namespaces")
	command.RunE = func(command *cobra.Command, _ []string) error {
		reader, namespace, err := a.open()
		if err != nil {
			return err
		}
		defer reader.Close()
		if all {
			namespace = metav1.NamespaceAll
		}
		states, err := reader.List(command.Context(), namespace)
		if err != nil {
			return explain(reader, err)
		}
		// A hint on standard error and no error: an empty list is a valid result.
		if len(states) == 0 && !all {
			printer.Note(command, "There are no Rollouts and Releases in the namespace %s: look in all with -A, or choose one with -n.", namespace)
		}
		return printStates(command.OutOrStdout(), states, output, all)
	}
	return command
}

// printStates prints a list. JSON and YAML are a List of the objects, as kubectl
// prints objects of several kinds.
func printStates(w io.Writer, states []*progressive.State, output *printer.Output, all bool) error {
	switch output.Form {
	case printer.FormJSON, printer.FormYAML:
		items := []any{}
		for _, state := range states {
			items = append(items, state.Object.Object)
		}
		return output.Encode(w, map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	case printer.FormName:
		for _, state := range states {
			if _, err := fmt.Fprintln(w, argument(state.ID)); err != nil {
				return err
			}
		}
		return nil
	}
	if len(states) == 0 {
		return nil
	}
	header := []string{"NAME", "KIND", "STRATEGY", "STATUS", "STEP", "WEIGHT", "READY", "MESSAGE"}
	if all {
		header = append([]string{"NAMESPACE"}, header...)
	}
	return printer.List(w, header, states, func(state *progressive.State) []string {
		cells := []string{state.Name, string(state.Kind), printer.OrDash(state.Strategy), state.Phase,
			shownStep(state), shownWeight(state.Weight), shownReady(state), state.Message}
		if all {
			cells = append([]string{state.Namespace}, cells...)
		}
		return cells
	})
}
