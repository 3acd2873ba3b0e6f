package mode

import (
	"fmt"

	"slipway.dev/slipway/internal/wire/platformv1"
)

// Mode is how a runtime is reached.
type Mode int

// The modes. Unresolved is what contradictory settings give.
const (
	Unresolved Mode = iota
	Tunnel
	Ingress
	HTTPRoute
	Mesh
)

// String is the mode as people write it.
func (m Mode) String() string {
	switch m {
	case Tunnel:
		return "tunnel"
	case Ingress:
		return "ingress"
	case HTTPRoute:
		return "httpRoute"
	case Mesh:
		return "mesh"
	case Unresolved:
		return "unresolved"
	}
	return fmt.Sprintf("Mode(%d)", int(m))
}

// Wire is the mode in messages to the platform.
func (m Mode) Wire() platformv1.AccessMode {
	switch m {
	case Tunnel:
		return platformv1.AccessMode_ACCESS_MODE_TUNNEL
	case Ingress:
		return platformv1.AccessMode_ACCESS_MODE_INGRESS
	case HTTPRoute:
		return platformv1.AccessMode_ACCESS_MODE_HTTP_ROUTE
	case Mesh:
		return platformv1.AccessMode_ACCESS_MODE_MESH
	case Unresolved:
	}
	return platformv1.AccessMode_ACCESS_MODE_UNSPECIFIED
}

// The keys of the chart's values that choose a mode. Findings name them.
const (
	KeyRuntimeName        = "global.runtime.name"
	KeyAccountID          = "global.platform.accountId"
	KeyTunnelEnabled      = "tunnel-client.enabled"
	KeyIngressEnabled     = "global.runtime.ingress.enabled"
	KeyIngressHosts       = "global.runtime.ingress.hosts"
	KeyIngressClassName   = "global.runtime.ingress.className"
	KeyIngressProtocol    = "global.runtime.ingress.protocol"
	KeyIngressTLS         = "global.runtime.ingress.tls"
	KeyIngressLabels      = "global.runtime.ingress.labels"
	KeyHTTPRouteEnabled   = "global.runtime.httpRoute.enabled"
	KeyHTTPRouteHostnames = "global.runtime.httpRoute.hostnames"
	KeyHTTPRouteParents   = "global.runtime.httpRoute.parentRefs"
	KeyHTTPRouteProtocol  = "global.runtime.httpRoute.protocol"
	KeyHTTPRouteLabels    = "global.runtime.httpRoute.labels"
	KeyIngressURL         = "global.runtime.ingressUrl"
)

// Settings are the values that choose a mode and fill its objects.
type Settings struct {
	// Runtime is its name, and Namespace where it is installed.
	Runtime   string
	Namespace string
	// AccountID and TunnelDomain make the address of a tunnel. They may be empty
	// before the runtime is registered; the address is empty then.
	AccountID    string
	TunnelDomain string

	// TunnelEnabled is nil when nobody said anything about the tunnel.
	TunnelEnabled *bool
	Ingress       IngressSettings
	HTTPRoute     HTTPRouteSettings
	// IngressURL is where a mesh serves the runtime.
	IngressURL string
}

// IngressSettings are those of global.runtime.ingress.
type IngressSettings struct {
	Enabled bool
	// Hosts are names or addresses; the first is the one that the platform uses.
	Hosts     []string
	ClassName string
	// Protocol is http or https; empty is https.
	Protocol    string
	TLS         []IngressTLS
	Annotations map[string]string
	Labels      map[string]string
}

// IngressTLS is a certificate of an Ingress.
type IngressTLS struct {
	Hosts      []string `json:"hosts,omitempty"`
	SecretName string   `json:"secretName,omitempty"`
}

// HTTPRouteSettings are those of global.runtime.httpRoute.
type HTTPRouteSettings struct {
	Enabled    bool
	ParentRefs []ParentRef
	Hostnames  []string
	// Protocol is http or https; empty is https.
	Protocol    string
	Annotations map[string]string
	Labels      map[string]string
}

// ParentRef is a Gateway that an HTTPRoute belongs to.
type ParentRef struct {
	Name        string `json:"name"`
	Namespace   string `json:"namespace,omitempty"`
	SectionName string `json:"sectionName,omitempty"`
	Port        int32  `json:"port,omitempty"`
}

// Finding is something about the settings that somebody has to know.
type Finding struct {
	// Code is one word for programs, such as AccessContradiction.
	Code string
	// Warning is set when the settings work all the same.
	Warning bool
	// Keys are those that it is about.
	Keys []string
	// Message says what is wrong, and Fix what to do.
	Message string
	Fix     string
}

// String is the finding in one sentence.
func (f Finding) String() string {
	text := ""
	for i, key := range f.Keys {
		if i > 0 {
			text += ", "
		}
		text += key
	}
	return text + ": " + f.Message + ": " + f.Fix
}

// The codes of findings.
const (
	CodeContradiction = "AccessContradiction"
	CodeMissing       = "AccessMissing"
	CodeInvalid       = "AccessInvalid"
	CodeUnused        = "AccessUnused"
)
