package appcmd

import (
	"context"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/agent/division"
	"slipway.dev/slipway/internal/cli/kubeflags"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// divisionName is the default name of the agent's Lease, which the Leases of a division
// begin with.
const divisionName = "slipway-agent"

// owner implements appBackend by the Leases beside the Application: agents are in their
// control namespace by default. Where they are elsewhere nothing is found.
func (c *appCluster) owner(ctx context.Context, app *application) string {
	ctx, cancel := context.WithTimeout(ctx, kubeflags.RequestTimeout)
	defer cancel()
	// Most users may not read Leases: the line is left out for them.
	name, _ := division.Owner(ctx, c.Cluster, app.Namespace, divisionName, app.ID().String())
	return name
}

// owner implements appBackend.
func (r *remoteApps) owner(ctx context.Context, app *application) string {
	response, err := r.client.GetApplication(ctx, connect.NewRequest(&runtimev1.GetApplicationRequest{Ref: remoteRef(app.ID())}))
	if err != nil {
		return "" // the Application was read a moment ago: the rest is shown
	}
	return response.Msg.GetApplication().GetOwner()
}
