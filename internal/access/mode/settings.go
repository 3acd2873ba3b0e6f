package mode

import (
	"fmt"
	"strings"

	"slipway.dev/slipway/internal/wire/platformv1"
)

// Mode is how the platform reaches a runtime.
type Mode int

// The modes. Unresolved is the result of contradictory settings.
const (
	Unresolved Mode = iota
	Tunnel
	Ingress
	HTTPRoute
	Mesh
)

// String returns the mode as it is written in values and flags.
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

// Parse reads a mode as users write it in a flag. The HTTPRoute has the
// spelling of flags and that of values.
func Parse(text string) (Mode, error) {
	switch strings.ReplaceAll(strings.ToLower(text), "-", "") {
	case "tunnel":
		return Tunnel, nil
	case "ingress":
		return Ingress, nil
	case "httproute":
		return HTTPRoute, nil
	case "mesh":
		return Mesh, nil
	}
	return Unresolved, fmt.Errorf("--mode %q is not known: choose tunnel, ingress, http-route or mesh", text)
}

// Wire returns the mode as the API has it.
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
	// Keys of the chart's values that select a mode. Findings name them, so they are
	// spelled as in values.yaml.
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

// Settings are the values that select a mode and fill its objects.
type Settings struct {
	// Runtime is the name of the runtime, and Namespace where it is installed.
	Runtime   string
	Namespace string
	// AccountID and TunnelDomain form the host of a tunnel. They may be empty before
	// the runtime is registered; the URL is empty then.
	AccountID    string
	TunnelDomain string

	// TunnelEnabled is nil when the value is not set. The tunnel is the default only
	// then: an explicit true conflicts with other modes.
	TunnelEnabled *bool
	Ingress       IngressSettings
	HTTPRoute     HTTPRouteSettings
	// IngressURL is the URL at which a service mesh serves the runtime.
	IngressURL string
}

// IngressSettings are the values below global.runtime.ingress.
type IngressSettings struct {
	Enabled bool
	// Hosts are DNS names or IP addresses. The platform uses the first one.
	Hosts     []string
	ClassName string
	// Protocol is http or https; empty means https.
	Protocol    string
	TLS         []IngressTLS
	Annotations map[string]string
	Labels      map[string]string
}

// IngressTLS is an entry of spec.tls of an Ingress.
type IngressTLS struct {
	Hosts      []string `json:"hosts,omitempty"`
	SecretName string   `json:"secretName,omitempty"`
}

// HTTPRouteSettings are the values below global.runtime.httpRoute.
type HTTPRouteSettings struct {
	Enabled    bool
	ParentRefs []ParentRef
	Hostnames  []string
	// Protocol is http or https; empty means https.
	Protocol    string
	Annotations map[string]string
	Labels      map[string]string
}

// ParentRef names a Gateway that an HTTPRoute attaches to.
type ParentRef struct {
	Name        string `json:"name"`
	Namespace   string `json:"namespace,omitempty"`
	SectionName string `json:"sectionName,omitempty"`
	Port        int32  `json:"port,omitempty"`
}

// The codes of findings. Only CodeUnused is a warning.
const (
	CodeContradiction = "AccessContradiction"
	CodeMissing       = "AccessMissing"
	CodeInvalid       = "AccessInvalid"
	CodeUnused        = "AccessUnused"
)
