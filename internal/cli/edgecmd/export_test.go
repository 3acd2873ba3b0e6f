package edgecmd

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/exit"
)

// ExecuteEdgeAdmin runs a command line with the commands that ask an edge, as
// they are below edge.
func ExecuteEdgeAdmin(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	root := &cobra.Command{Use: "slipway", SilenceErrors: true, SilenceUsage: true}
	edge := &cobra.Command{Use: "edge"}
	edge.SetHelpFunc(func(*cobra.Command, []string) { _, _ = io.WriteString(stdout, "the help of edge") })
	edge.AddCommand(adminCommands()...)
	root.AddCommand(edge)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return root.ExecuteContext(ctx)
}

// IsUsageError reports whether an error is about the command line.
func IsUsageError(err error) bool {
	_, is := err.(exit.UsageError)
	return is
}
