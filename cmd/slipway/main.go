// Command slipway delivers applications from Git to Kubernetes and serves their
// traffic. See internal/cli for its commands.
package main

import (
	"os"

	"slipway.dev/slipway/internal/cli"
)

// main only maps the result to an exit code; cli.Main owns flags, signals and
// output.
func main() { os.Exit(cli.Main()) }
