package fleet

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"slipway.dev/slipway/internal/platform/signing"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// maxState bounds the state that a runtime reports about itself.
const maxState = 512 << 10

// agentService implements AgentService.
type agentService struct{ *Fleet }

// Heartbeat records that a runtime is alive, with its state if that has
// changed.
func (a agentService) Heartbeat(ctx context.Context, request *connect.Request[platformv1.HeartbeatRequest]) (*connect.Response[platformv1.HeartbeatResponse], error) {
	response, err := a.heartbeat(ctx, request.Msg)
	a.metrics.heartbeats.WithLabelValues(outcome(err)).Inc()
	if err != nil {
		return nil, a.apiError(err)
	}
	return connect.NewResponse(response), nil
}

// heartbeat stores a heartbeat and returns the desired state: interval, Git
// settings, keys, tunnel URLs, and whether to uninstall. SendAll requests the
// complete state from an agent whose state the platform does not have.
func (f *Fleet) heartbeat(ctx context.Context, given *platformv1.HeartbeatRequest) (*platformv1.HeartbeatResponse, error) {
	who, err := agent(ctx)
	if err != nil {
		return nil, err
	}
	// An unchanged heartbeat only renews the timestamp, which keeps the row
	// small and the transaction short.
	update := func(*store.Runtime) error { return nil }
	if !given.GetUnchanged() {
		if update, err = heartbeatUpdate(given); err != nil {
			return nil, err
		}
	}
	runtime, err := f.store.UpdateRuntime(ctx, who.RuntimeID, func(runtime *store.Runtime) error {
		runtime.HeartbeatAt = f.now().UTC()
		return update(runtime)
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, errDeleted
	}
	if err != nil {
		return nil, err
	}
	// The response carries everything an agent needs, so that it never polls
	// another procedure.
	settings, err := f.settingsFor(ctx, who, given)
	if err != nil {
		return nil, err
	}
	return &platformv1.HeartbeatResponse{
		Next: durationpb.New(heartbeatInterval), GitSettings: settings,
		ConfigurationRuntime: runtime.ConfigurationRuntime,
		Uninstall:            runtime.Uninstalling, CleanSharedRepository: runtime.CleanSharedRepository,
		SendAll: len(runtime.State) == 0, PlatformKeys: f.signer.PublicKeys(), TunnelUrls: f.options.TunnelURLs(),
	}, nil
}

// errDeleted is returned to an agent whose runtime was deleted.
var errDeleted = connect.NewError(connect.CodeUnauthenticated, errors.New("the runtime was deleted from the platform: register it again, with an API key"))

// heartbeatUpdate validates a heartbeat and returns the function that applies
// it to the stored runtime. The function may run several times, when a
// transaction is retried.
func heartbeatUpdate(given *platformv1.HeartbeatRequest) (func(*store.Runtime) error, error) {
	for _, text := range []string{given.GetVersion(), given.GetChartVersion(), given.GetKubernetesVersion(), given.GetIngressClass(), given.GetSharedRepository()} {
		if len(text) > maxField {
			return nil, invalid("a value has %d characters; at most %d are possible", len(text), maxField)
		}
	}
	if err := checkAccess(given.GetAccessMode(), given.GetAccessUrl()); err != nil {
		return nil, err
	}
	state, err := proto.MarshalOptions{Deterministic: true}.Marshal(given)
	if err != nil {
		return nil, invalid("the heartbeat cannot be stored: %w", err)
	}
	if len(state) > maxState {
		return nil, invalid("the state of the runtime has %d bytes; at most %d are possible", len(state), maxState)
	}
	return func(runtime *store.Runtime) error {
		runtime.Version, runtime.ChartVersion, runtime.KubernetesVersion = given.GetVersion(), given.GetChartVersion(), given.GetKubernetesVersion()
		runtime.AccessMode, runtime.AccessURL, runtime.IngressClass = int32(given.GetAccessMode()), given.GetAccessUrl(), given.GetIngressClass()
		runtime.State = state
		return nil
	}, nil
}

// settingsFor returns the Git settings of a runtime's account. It freezes
// them when the runtime has validated the repository that is currently set
// (R56, R115); the runtime may still report on an earlier one, so both are
// compared.
func (f *Fleet) settingsFor(ctx context.Context, who signing.RuntimeIdentity, given *platformv1.HeartbeatRequest) (*platformv1.GitSettings, error) {
	settings, err := f.store.GitSettings(ctx, who.AccountID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	// Both the reported and the configured repository must match: the runtime
	// may have validated an earlier one.
	reached := func(settings store.GitSettings) bool {
		return given.GetSharedRepositoryValid() && settings.SharedRepository != "" && settings.SharedRepository == given.GetSharedRepository()
	}
	if err == nil && !settings.Validated && reached(settings) {
		settings, err = f.store.UpdateGitSettings(ctx, who.AccountID, func(now *store.GitSettings) error {
			now.Validated = now.Validated || reached(*now)
			return nil
		})
	}
	if err != nil || settings.SharedRepository == "" { // reset concurrently
		return nil, err
	}
	return settingsMessage(settings), nil
}

// Unregister deletes a runtime that is being uninstalled. It is idempotent:
// the agent may retry.
func (a agentService) Unregister(ctx context.Context, _ *connect.Request[platformv1.UnregisterRequest]) (*connect.Response[platformv1.UnregisterResponse], error) {
	who, err := agent(ctx)
	if err != nil {
		return nil, err
	}
	err = a.store.DeleteRuntime(ctx, who.AccountID, who.RuntimeID, time.Time{})
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, a.apiError(err)
	}
	a.log.Info("runtime unregistered", "runtime", who.Name, "account", who.AccountID)
	return connect.NewResponse(&platformv1.UnregisterResponse{}), nil
}
