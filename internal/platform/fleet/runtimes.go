package fleet

import (
	"context"
	"errors"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// helmRelease is the release that the chart's documentation installs.
const helmRelease = "slipway-runtime"

// runtimeService is RuntimeService.
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
		return nil, r.answer(err)
	}
	answer := &platformv1.ListRuntimesResponse{NextPageToken: next}
	for _, runtime := range runtimes {
		answer.Runtimes = append(answer.Runtimes, r.message(runtime))
	}
	return connect.NewResponse(answer), nil
}

// GetRuntime gives one runtime.
func (r runtimeService) GetRuntime(ctx context.Context, request *connect.Request[platformv1.GetRuntimeRequest]) (*connect.Response[platformv1.GetRuntimeResponse], error) {
	accountID, err := account(ctx)
	if err != nil {
		return nil, err
	}
	runtime, err := r.named(ctx, accountID, request.Msg.GetName())
	if err != nil {
		return nil, r.answer(err)
	}
	return connect.NewResponse(&platformv1.GetRuntimeResponse{Runtime: r.message(runtime)}), nil
}

// UpdateRuntime changes which one is the configuration runtime.
func (r runtimeService) UpdateRuntime(ctx context.Context, request *connect.Request[platformv1.UpdateRuntimeRequest]) (*connect.Response[platformv1.UpdateRuntimeResponse], error) {
	accountID, err := account(ctx)
	if err != nil {
		return nil, err
	}
	given := request.Msg
	runtime, err := r.named(ctx, accountID, given.GetName())
	if err != nil {
		return nil, r.answer(err)
	}
	if given.NewName != nil && given.GetNewName() != runtime.Name {
		return nil, refused("a runtime cannot be renamed: its name is in its cluster, its tunnel and the Shared Configuration Repository; install it with another name and uninstall %q", runtime.Name)
	}
	if given.ConfigurationRuntime != nil && given.GetConfigurationRuntime() != runtime.ConfigurationRuntime {
		if !given.GetConfigurationRuntime() {
			return nil, refused("an account with runtimes has a configuration runtime: make another one that instead of %q", runtime.Name)
		}
		if err := r.store.SetConfigurationRuntime(ctx, accountID, runtime.ID); err != nil {
			return nil, r.answer(err)
		}
		runtime.ConfigurationRuntime = true
	}
	return connect.NewResponse(&platformv1.UpdateRuntimeResponse{Runtime: r.message(runtime)}), nil
}

// DeleteRuntime forgets an offline runtime (R113). What is in its cluster stays.
func (r runtimeService) DeleteRuntime(ctx context.Context, request *connect.Request[platformv1.DeleteRuntimeRequest]) (*connect.Response[platformv1.DeleteRuntimeResponse], error) {
	accountID, err := account(ctx)
	if err != nil {
		return nil, err
	}
	runtime, err := r.named(ctx, accountID, request.Msg.GetName())
	if err != nil {
		return nil, r.answer(err)
	}
	online := refused("the runtime %q is online, and only an offline one can be deleted: uninstall it first", runtime.Name)
	if r.online(runtime) {
		return nil, online
	}
	err = r.store.DeleteRuntime(ctx, accountID, runtime.ID, r.now().Add(-r.options.Offline))
	if conflict := (*store.ConflictError)(nil); errors.As(err, &conflict) {
		return nil, online // it came back between the two
	}
	if err != nil {
		return nil, r.answer(err)
	}
	r.log.Info("a runtime was deleted", "runtime", runtime.Name, "account", accountID)
	return connect.NewResponse(&platformv1.DeleteRuntimeResponse{}), nil
}

// UninstallRuntime is the first of two steps (R113): the runtime cleans up when it
// hears of it, and helm removes it then.
func (r runtimeService) UninstallRuntime(ctx context.Context, request *connect.Request[platformv1.UninstallRuntimeRequest]) (*connect.Response[platformv1.UninstallRuntimeResponse], error) {
	accountID, err := account(ctx)
	if err != nil {
		return nil, err
	}
	runtime, err := r.named(ctx, accountID, request.Msg.GetName())
	if err != nil {
		return nil, r.answer(err)
	}
	runtime, err = r.store.UpdateRuntime(ctx, runtime.ID, func(runtime *store.Runtime) error {
		runtime.Uninstalling = true
		runtime.CleanSharedRepository = request.Msg.GetCleanSharedRepository()
		return nil
	})
	if err != nil {
		return nil, r.answer(err)
	}
	return connect.NewResponse(&platformv1.UninstallRuntimeResponse{
		NextCommand: "helm uninstall " + helmRelease + " --namespace " + runtime.Namespace,
	}), nil
}

// RevokeCredentials ends what the runtime holds: its tokens, and through the change
// in the store its tunnels.
func (r runtimeService) RevokeCredentials(ctx context.Context, request *connect.Request[platformv1.RevokeCredentialsRequest]) (*connect.Response[platformv1.RevokeCredentialsResponse], error) {
	accountID, err := account(ctx)
	if err != nil {
		return nil, err
	}
	runtime, err := r.named(ctx, accountID, request.Msg.GetName())
	if err != nil {
		return nil, r.answer(err)
	}
	if err := r.store.RevokeCredential(ctx, runtime.ID); err != nil {
		return nil, r.answer(err)
	}
	r.log.Info("the credentials of a runtime were revoked", "runtime", runtime.Name, "account", accountID)
	return connect.NewResponse(&platformv1.RevokeCredentialsResponse{}), nil
}
