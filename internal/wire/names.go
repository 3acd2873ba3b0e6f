package wire

import (
	"fmt"
	"regexp"
)

// Paths of the platform and of a runtime's router.
const (
	// TunnelPath is where agents open their tunnels, as WebSockets.
	TunnelPath = "/tunnel/v1/connect"
	// PeerPath is where replicas of the platform hand requests to each other.
	PeerPath = "/tunnel/v1/peer/"
	// RuntimesPath is what the platform forwards to runtimes, by their names.
	RuntimesPath = "/runtimes/"
	// AppProxyPath, WebhooksPath and WorkflowsPath are what a router serves.
	AppProxyPath  = "/app-proxy/"
	WebhooksPath  = "/webhooks/"
	WorkflowsPath = "/workflows/"
)

// Headers that both ends know.
const (
	// RouterHeader names the runtime on every answer of its router, so that a check
	// from outside can tell that it reached the right one.
	RouterHeader = "Slipway-Router"
	// CSRFHeader carries the token of a session with requests that change something.
	CSRFHeader = "X-Slipway-CSRF"
)

// RuntimeNameMax is the longest name of a runtime. The label <account>-<runtime>
// of a tunnel's host has 24 characters of the account and a dash, and a label of
// DNS has 63.
const RuntimeNameMax = 38

var runtimeName = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)

// RuntimeName says what is wrong with the name of a runtime.
func RuntimeName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("a runtime needs a name: lower-case letters, digits and dashes, at most %d, beginning with a letter", RuntimeNameMax)
	case len(name) > RuntimeNameMax:
		return fmt.Errorf("the name of the runtime has %d characters; at most %d fit into the host name of its tunnel", len(name), RuntimeNameMax)
	case !runtimeName.MatchString(name):
		return fmt.Errorf("the name of the runtime %q must have lower-case letters, digits and dashes only, begin with a letter and not end with a dash", name)
	}
	return nil
}

// TunnelLabel is the first label of the host name of a runtime's tunnel.
func TunnelLabel(accountID, runtime string) string {
	return accountID + "-" + runtime
}
