package appcmd

import (
	"context"

	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/wire/runtimev1/runtimev1connect"
)

// remoteApps is the backend of a runtime that the platform reaches. The
// platform authenticates the user and forwards each request to the runtime.
type remoteApps struct {
	client    runtimev1connect.ApplicationServiceClient
	releasing runtimev1connect.ReleaseServiceClient
	platform  *apiclient.Client
	// namespace is that of the flag, empty without it: the runtime then
	// resolves names itself.
	namespace string
}

// newRemoteApps returns the backend of a runtime. It owns the client and closes
// it. The HTTP client of the platform is shared, and with it the key and the
// TLS settings.
func newRemoteApps(platform *apiclient.Client, runtime, namespace string) *remoteApps {
	return &remoteApps{
		client:    runtimev1connect.NewApplicationServiceClient(platform.HTTP, platform.RuntimeBase(runtime), apiclient.ReadLimit()),
		releasing: runtimev1connect.NewReleaseServiceClient(platform.HTTP, platform.RuntimeBase(runtime), apiclient.ReadLimit()),
		platform:  platform, namespace: namespace,
	}
}

// home implements appBackend.
func (r *remoteApps) home() string { return r.namespace }

// close implements appBackend.
func (r *remoteApps) close() { r.platform.Close() }

// explain turns an error of the platform or the runtime into one that names the
// next step for the user; nil stays nil.
func (r *remoteApps) explain(ctx context.Context, err error) error {
	return r.platform.Explain(ctx, err)
}
