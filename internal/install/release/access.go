package release

import (
	"cmp"
	"errors"

	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/install/values"
)

// AccessSettings decodes the settings of the access mode from a runtime's
// values. It does not check them: mode.Resolve does. A list that cannot be
// decoded is empty and an error.
func AccessSettings(document values.Document, namespace string) (mode.Settings, error) {
	settings := mode.Settings{
		Runtime: document.Text(values.KeyRuntimeName), Namespace: namespace, AccountID: document.Text(values.KeyAccountID),
		TunnelEnabled: document.FlagIfSet(mode.KeyTunnelEnabled), IngressURL: document.Text(mode.KeyIngressURL),
		Ingress: mode.IngressSettings{
			Enabled: document.Flag(mode.KeyIngressEnabled), Hosts: document.Texts(mode.KeyIngressHosts), ClassName: document.Text(mode.KeyIngressClassName),
			Protocol: document.Text(mode.KeyIngressProtocol), Labels: document.TextMap(mode.KeyIngressLabels), Annotations: document.TextMap(values.KeyIngressAnnotations),
		},
		HTTPRoute: mode.HTTPRouteSettings{
			Enabled: document.Flag(mode.KeyHTTPRouteEnabled), Hostnames: document.Texts(mode.KeyHTTPRouteHostnames),
			Protocol: document.Text(mode.KeyHTTPRouteProtocol), Labels: document.TextMap(mode.KeyHTTPRouteLabels),
		},
	}
	certificates, err := values.Objects[mode.IngressTLS](document, mode.KeyIngressTLS)
	settings.Ingress.TLS = certificates
	parents, parentErr := values.Objects[mode.ParentRef](document, mode.KeyHTTPRouteParents)
	settings.HTTPRoute.ParentRefs = parents
	return settings, errors.Join(err, parentErr)
}

// AccessValues returns values with the settings, the opposite of
// AccessSettings, for checks that run before there are values. The platform is
// needed because the chart does not render without its URL.
func AccessValues(settings mode.Settings, platform string) map[string]any {
	runtime := map[string]any{"name": settings.Runtime, "ingressUrl": settings.IngressURL}
	if given := settings.Ingress; given.Enabled {
		runtime["ingress"] = map[string]any{
			"enabled": true, "hosts": given.Hosts, "className": given.ClassName, "protocol": cmp.Or(given.Protocol, "https"), "tls": given.TLS,
		}
	}
	if given := settings.HTTPRoute; given.Enabled {
		runtime["httpRoute"] = map[string]any{
			"enabled": true, "hostnames": given.Hostnames, "protocol": cmp.Or(given.Protocol, "https"), "parentRefs": given.ParentRefs,
		}
	}
	made := map[string]any{"global": map[string]any{"platform": map[string]any{"url": platform}, "runtime": runtime}}
	if settings.TunnelEnabled != nil {
		made["tunnel-client"] = map[string]any{"enabled": *settings.TunnelEnabled}
	}
	return made
}
