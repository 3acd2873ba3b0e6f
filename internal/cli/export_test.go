package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/controller"
	"slipway.dev/slipway/internal/observe"
)

// EdgeFunc stands for the data plane in tests of what is around it.
type EdgeFunc func(ctx context.Context, options *config.Edge, health *observe.Health) error

func (f EdgeFunc) program() program {
	return program{runEdge: func(ctx context.Context, options *config.Edge, parts controller.Parts) error {
		return f(ctx, options, parts.Health)
	}}
}

// ExecuteEdge is Execute with another data plane.
func ExecuteEdge(ctx context.Context, f EdgeFunc, args []string, stdout, stderr io.Writer) int {
	return f.program().execute(ctx, args, stdout, stderr)
}

// MainEdge is Main with another data plane.
func MainEdge(f EdgeFunc) int { return runProcess(f.program().execute) }

// Tree returns a new command tree with the commands that cobra adds when it
// runs: help and completion.
func Tree() *cobra.Command {
	root := program{runEdge: controller.Run}.root()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd("completion")
	return root
}

// TreeOn returns the command tree of another system.
func TreeOn(system string) *cobra.Command {
	root := program{runEdge: controller.Run}.root()
	onLinuxOnly(root, system)
	return root
}
