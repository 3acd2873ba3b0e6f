// Command nameserver is CoreDNS with the plugins that the Corefile of the
// conformance suite names. The stock program has 50 more, which bring the SDKs
// of three clouds and take several minutes to compile.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	// Each plugin registers itself.
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/whoami"
)

func main() {
	// The order of plugins in a chain, as in the stock program.
	dnsserver.Directives = []string{"errors", "log", "forward", "whoami"}
	coremain.Run()
}
