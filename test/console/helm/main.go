// Command helm is Helm for what the console shows; see test/programs/helm.
package main

import (
	"os"

	"slipway.dev/slipway/test/programs/helm"
)

func main() { os.Exit(helm.Main(os.Args[1:])) }
