// Command helm is the helm command for the instructions that the console shows,
// so that its tests can run them as printed. See test/programs/helm.
package main

import (
	"os"

	"slipway.dev/slipway/test/programs/helm"
)

func main() { os.Exit(helm.Main(os.Args[1:])) }
