package fleet

import (
	"context"
	"errors"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// helmRelease is the release name in the chart's documentation.
const helmRelease = "slipway-runtime"

// runtimeService implements RuntimeService.
type runtimeService struct{ *Fleet }

// ListRuntimes lists the runtimes of the account by name.
func (r runtimeService) ListRuntimes(ctx context.Context, request *connect.Request[platformv1.ListRuntimesRequest]) (*connect.Response[platformv1.ListRuntimesResponse], error) {
	accountID, err := account(ctx)
	if err != nil {
		return nil, err
	}
	page := store.Page{Size: int(request.Msg.GetPageSize()), Token: request.Msg.GetPageToken()}
	runtimes, next, err := r.store.Runtimes(ctx, accountID, page)
	if err != nil {
		return nil, r.apiError(err)
	}
	response := &platformv1.ListRuntimesResponse{NextPageToken: next}
	for _, runtime := range runtimes {
		response.Runtimes = append(response.Runtimes, r.messageFor(callerOf(ctx), runtime))
	}
	return connect.NewResponse(response), nil
}

// ofCaller returns the runtime of that name in the account of the caller.
func (r runtimeService) ofCaller(ctx context.Context, name string) (store.Runtime, error) {
	accountID, err := account(ctx)
	if err != nil {
		return store.Runtime{}, err
	}
	runtime, err := r.named(ctx, accountID, name)
	return runtime, r.apiError(err)
}

// GetRuntime returns one runtime.
func (r runtimeService) GetRuntime(ctx context.Context, request *connect.Request[platformv1.GetRuntimeRequest]) (*connect.Response[platformv1.GetRuntimeResponse], error) {
	runtime, err := r.ofCaller(ctx, request.Msg.GetName())
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&platformv1.GetRuntimeResponse{Runtime: r.messageFor(callerOf(ctx), runtime)}), nil
}

// UpdateRuntime changes which runtime is the configuration runtime. Renaming
// is rejected, because the name is part of the cluster, the tunnel host and
// the shared repository.
func (r runtimeService) UpdateRuntime(ctx context.Context, request *connect.Request[platformv1.UpdateRuntimeRequest]) (*connect.Response[platformv1.UpdateRuntimeResponse], error) {
	given := request.Msg
	runtime, err := r.ofCaller(ctx, given.GetName())
	if err != nil {
		return nil, err
	}
	if given.NewName != nil && given.GetNewName() != runtime.Name {
		return nil, failedPrecondition("a runtime cannot be renamed: its name is in its cluster, its tunnel and the Shared Configuration Repository; install it with another name and uninstall %q", runtime.Name)
	}
	if given.ConfigurationRuntime != nil && given.GetConfigurationRuntime() != runtime.ConfigurationRuntime {
		if !given.GetConfigurationRuntime() {
			return nil, failedPrecondition("an account with runtimes has a configuration runtime: make another one that instead of %q", runtime.Name)
		}
		if err := r.store.SetConfigurationRuntime(ctx, runtime.AccountID, runtime.ID); err != nil {
			return nil, r.apiError(err)
		}
		runtime.ConfigurationRuntime = true
	}
	return connect.NewResponse(&platformv1.UpdateRuntimeResponse{Runtime: r.message(runtime)}), nil
}

// DeleteRuntime deletes an offline runtime from the platform (R113).
// Resources in its cluster stay.
func (r runtimeService) DeleteRuntime(ctx context.Context, request *connect.Request[platformv1.DeleteRuntimeRequest]) (*connect.Response[platformv1.DeleteRuntimeResponse], error) {
	runtime, err := r.ofCaller(ctx, request.Msg.GetName())
	if err != nil {
		return nil, err
	}
	online := failedPrecondition("the runtime %q is online, and only an offline one can be deleted: uninstall it first", runtime.Name)
	if r.online(runtime) {
		return nil, online
	}
	// The store checks the heartbeat again in its transaction: the runtime
	// may have come back since it was read.
	err = r.store.DeleteRuntime(ctx, runtime.AccountID, runtime.ID, r.now().Add(-store.OfflineAfter))
	if conflict := (*store.ConflictError)(nil); errors.As(err, &conflict) {
		return nil, online // it came online after the check
	}
	if err != nil {
		return nil, r.apiError(err)
	}
	r.log.Info("runtime deleted", "runtime", runtime.Name, "account", runtime.AccountID)
	return connect.NewResponse(&platformv1.DeleteRuntimeResponse{}), nil
}

// UninstallRuntime starts an uninstallation (R113). The runtime cleans up
// when it receives the request with a heartbeat; then helm removes it from
// the cluster.
func (r runtimeService) UninstallRuntime(ctx context.Context, request *connect.Request[platformv1.UninstallRuntimeRequest]) (*connect.Response[platformv1.UninstallRuntimeResponse], error) {
	runtime, err := r.ofCaller(ctx, request.Msg.GetName())
	if err != nil {
		return nil, err
	}
	runtime, err = r.store.UpdateRuntime(ctx, runtime.ID, func(runtime *store.Runtime) error {
		runtime.Uninstalling = true
		runtime.CleanSharedRepository = request.Msg.GetCleanSharedRepository()
		return nil
	})
	if err != nil {
		return nil, r.apiError(err)
	}
	return connect.NewResponse(&platformv1.UninstallRuntimeResponse{
		NextCommand: "helm uninstall " + helmRelease + " --namespace " + runtime.Namespace,
	}), nil
}

// RevokeCredentials revokes the tokens of a runtime. The change event of the
// store makes all replicas close its tunnels.
func (r runtimeService) RevokeCredentials(ctx context.Context, request *connect.Request[platformv1.RevokeCredentialsRequest]) (*connect.Response[platformv1.RevokeCredentialsResponse], error) {
	runtime, err := r.ofCaller(ctx, request.Msg.GetName())
	if err != nil {
		return nil, err
	}
	if err := r.store.RevokeCredential(ctx, runtime.ID); err != nil {
		return nil, r.apiError(err)
	}
	r.log.Info("runtime credentials revoked", "runtime", runtime.Name, "account", runtime.AccountID)
	return connect.NewResponse(&platformv1.RevokeCredentialsResponse{}), nil
}
