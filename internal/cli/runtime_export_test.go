package cli

import (
	"context"
	"errors"
	"io"
)

// ExecuteRuntime runs a line of `slipway runtime`, also where the program does not
// list it.
func ExecuteRuntime(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := program{runEdge: runEdge}.root()
	if found, _, err := root.Find([]string{"runtime"}); err != nil || found == root {
		root.AddCommand(runtimeCommand())
	}
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	printError(stderr, err)
	if usage := (usageError{}); errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailure
}
