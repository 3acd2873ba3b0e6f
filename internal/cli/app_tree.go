package cli

import (
	"io"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/gitops/inspect"
)

func appTreeCommand(access *appAccess) *cobra.Command {
	command := &cobra.Command{
		Use:   "tree APP",
		Short: "Show the objects of an Application with what they own, down to the Pods",
		Long: `Shows the objects of an Application, and below them the ReplicaSets, Jobs and Pods
that they own, each with its health.`,
		Example: `  slipway app tree shop`,
		Args:    oneName,
	}
	output := newOutputFlag(command, outputJSON, outputYAML)
	command.RunE = func(command *cobra.Command, args []string) error {
		if err := output.check(); err != nil {
			return err
		}
		backend, app, err := access.find(command.Context(), args[0])
		if err != nil {
			return err
		}
		defer backend.close()
		root, err := backend.tree(command.Context(), app, command.ErrOrStderr())
		if err != nil {
			return err
		}
		if output.form != outputTable {
			return output.encode(command.OutOrStdout(), root)
		}
		return printTree(command.OutOrStdout(), root)
	}
	return command
}

func printTree(w io.Writer, root *inspect.Node) error {
	rows, flush := newTable(w)
	rows.row("OBJECT", "SYNC", "HEALTH", "MESSAGE")
	printNode(rows, root, "", "")
	return flush()
}

// printNode shows a node and what is below it; the lines in front of both differ.
func printNode(rows table, node *inspect.Node, first, rest string) {
	rows.row(first+node.Key().String(), orNone(node.Sync), orNone(node.Health), node.Message)
	for i, child := range node.Children {
		if i == len(node.Children)-1 {
			printNode(rows, child, rest+"└─ ", rest+"   ")
		} else {
			printNode(rows, child, rest+"├─ ", rest+"│  ")
		}
	}
}
