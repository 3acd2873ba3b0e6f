// Command slipway delivers applications from Git to Kubernetes and serves their
// traffic. See internal/cli for its commands. Releases of it are compiled by the
// profile release.pgo (decision 0094).
package main

import (
	"os"

	"slipway.dev/slipway/internal/cli"
)

// main only maps the result to an exit code; cli.Main owns flags, signals and
// output.
func main() { os.Exit(cli.Main()) }
