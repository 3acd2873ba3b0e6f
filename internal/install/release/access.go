package release

import (
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
			Protocol: document.Text(mode.KeyIngressProtocol), Labels: document.TextMap(mode.KeyIngressLabels),
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
