package appcmd

import (
	"context"

	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/wire/runtimev1/runtimev1connect"
)

// remoteApps are the Applications of a runtime that the platform reaches.
type remoteApps struct {
	client    runtimev1connect.ApplicationServiceClient
	platform  *apiclient.Client
	namespace string
}

// newRemoteApps asks a runtime through a platform.
func newRemoteApps(platform *apiclient.Client, runtime, namespace string) *remoteApps {
	return &remoteApps{
		client:   runtimev1connect.NewApplicationServiceClient(platform.HTTP, platform.RuntimeBase(runtime), apiclient.ReadLimit()),
		platform: platform, namespace: namespace,
	}
}

func (r *remoteApps) home() string { return r.namespace }

func (r *remoteApps) close() { r.platform.Close() }

// explain says what to do about an error of the platform or of the runtime.
func (r *remoteApps) explain(ctx context.Context, err error) error {
	return r.platform.Explain(ctx, err)
}
