// Command slipway takes what is in Git, makes it live on Kubernetes, and
// serves the traffic for it. See internal/cli for its commands.
package main

import (
	"os"

	"slipway.dev/slipway/internal/cli"
)

func main() { os.Exit(cli.Main()) }
