package appcmd

import (
	"io"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/gitops/inspect"
)

// appTreeCommand returns the command that shows the resource tree of an
// Application, down to the Pods.
func appTreeCommand(access *appAccess) *cobra.Command {
	command := &cobra.Command{
		Use:   "tree APP",
		Short: "Show the resource tree of an Application, down to the Pods",
		Long: `Shows the objects of an Application, and below them the ReplicaSets, Jobs and Pods
that they own, each with its health.`,
		Example: `  slipway app tree shop`,
		Args:    oneName,
	}
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML)
	command.RunE = access.with(func(command *cobra.Command, backend appBackend, app *application) error {
		root, err := backend.tree(command.Context(), app, command.ErrOrStderr())
		if err != nil {
			return err
		}
		if output.Form != printer.FormTable {
			return output.Encode(command.OutOrStdout(), root)
		}
		return printTree(command.OutOrStdout(), root)
	})
	return command
}

// printTree prints the tree as a table whose first column has the branches.
func printTree(w io.Writer, root *inspect.Node) error {
	rows, flush := printer.NewTable(w)
	rows.Row("OBJECT", "SYNC", "HEALTH", "MESSAGE")
	printNode(rows, root, "", "")
	return flush()
}

// printNode prints a node with the prefix first and its children with the
// prefix rest. The last child ends the branch, so the prefix of its own
// children has no line. The depth is that of owner references, so recursion is
// shallow.
func printNode(rows printer.Table, node *inspect.Node, first, rest string) {
	rows.Row(first+node.Key().String(), printer.OrDash(node.Sync), printer.OrDash(node.Health), node.Message)
	for i, child := range node.Children {
		if i == len(node.Children)-1 {
			printNode(rows, child, rest+"└─ ", rest+"   ")
		} else {
			printNode(rows, child, rest+"├─ ", rest+"│  ")
		}
	}
}
