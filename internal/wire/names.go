package wire

import (
	"fmt"
	"regexp"
)

// Paths of the platform and of a runtime's router.
const (
	// TunnelPath is the endpoint at which agents open tunnels, as WebSockets.
	TunnelPath = "/tunnel/v1/connect"
	// PeerPath is the prefix at which replicas of the platform forward requests
	// to each other.
	PeerPath = "/tunnel/v1/peer/"
	// RuntimesPath is the prefix that the platform forwards to runtimes by
	// name.
	RuntimesPath = "/runtimes/"
	// AppProxyPath, WebhooksPath and WorkflowsPath are the prefixes that a
	// router serves.
	AppProxyPath  = "/app-proxy/"
	WebhooksPath  = "/webhooks/"
	WorkflowsPath = "/workflows/"
	// ArgoCDPath has Argo CD's API for its clients. It is below AppProxyPath, so
	// that every route to a runtime leads there.
	ArgoCDPath = AppProxyPath + "argocd/"
)

// Headers that both ends use.
const (
	// RouterHeader names the runtime on every response of its router, so that
	// checks from outside can verify that they reached the right one.
	RouterHeader = "Slipway-Router"
	// CSRFHeader carries the CSRF token of a session with unsafe requests.
	CSRFHeader = "X-Slipway-CSRF"
)

// EntityLabel marks the Applications that are a part of a runtime: its own,
// those of its clusters, and its Git Sources. The value is the type of entity.
const EntityLabel = "slipway.dev/entity"

// EntityGitSource is the value of EntityLabel of a Git Source.
const EntityGitSource = "git-source"

// ProductLabel is the label of Applications with the name of their Product, as Codefresh
// has it.
const ProductLabel = "codefresh.io/product"

// RuntimeNameMax is the longest name of a runtime. The DNS label
// <account>-<runtime> of a tunnel host has 24 characters of the account and a
// dash, and a label is limited to 63 (RFC 1035).
const RuntimeNameMax = 38

var runtimeName = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)

// RuntimeName validates the name of a runtime.
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

// TunnelLabel returns the first DNS label of a runtime's tunnel host.
func TunnelLabel(accountID, runtime string) string {
	return accountID + "-" + runtime
}
