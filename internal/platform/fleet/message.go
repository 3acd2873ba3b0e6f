package fleet

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// message converts a runtime to its API message.
func (f *Fleet) message(runtime store.Runtime) *platformv1.Runtime {
	message := &platformv1.Runtime{
		Id: runtime.ID, Name: runtime.Name, Namespace: runtime.Namespace, Cluster: runtime.Cluster,
		KubernetesVersion: runtime.KubernetesVersion, Version: runtime.Version, ChartVersion: runtime.ChartVersion,
		AccessMode: platformv1.AccessMode(runtime.AccessMode), AccessUrl: runtime.AccessURL, IngressClass: runtime.IngressClass,
		Online: f.online(runtime), LastHeartbeatAt: wire.Timestamp(runtime.HeartbeatAt), RegisteredAt: wire.Timestamp(runtime.RegisteredAt),
		ConfigurationRuntime: runtime.ConfigurationRuntime, Uninstalling: runtime.Uninstalling,
	}
	// The URL of a tunnel is derived and not stored: the tunnel domain may
	// change.
	if host := f.tunnelHost(runtime); host != "" && message.GetAccessMode() == platformv1.AccessMode_ACCESS_MODE_TUNNEL {
		message.AccessUrl = "https://" + host
	}
	if newer(f.options.Version, runtime.Version) {
		message.UpdateAvailable = f.options.Version
	}
	f.addState(message, runtime)
	return message
}

// messageFor is message for a caller. A restricted user sees which runtimes there
// are, and not what they consist of. Every user sees the Git Sources that
// policies allow the user to get, as in the runtime's own list of them.
func (f *Fleet) messageFor(caller identity.Caller, runtime store.Runtime) *platformv1.Runtime {
	message := f.message(runtime)
	if caller.User.Role == store.RoleRestricted {
		message.Components, message.Clusters, message.PendingSteps, message.HealthMessage = nil, nil, nil, ""
	}
	policy := f.options.Policies.Of(runtime)
	message.GitSources = slices.DeleteFunc(message.GetGitSources(), func(one *platformv1.GitSourceSummary) bool {
		application := &platformv1.Application{Project: one.GetProject(), Namespace: runtime.Namespace, Name: one.GetName()}
		return !policy.Decide(caller, permission.Get, application).Allowed
	})
	return message
}

// addState adds the state of the last heartbeat. Before the first heartbeat
// all installation steps are pending (R61, R63). Health is only shown while
// the runtime is online: an old value would be misleading.
func (f *Fleet) addState(message *platformv1.Runtime, runtime store.Runtime) {
	message.Sync, message.Health = platformv1.SyncStatus_SYNC_STATUS_UNKNOWN, platformv1.HealthStatus_HEALTH_STATUS_UNKNOWN
	message.Installation = platformv1.InstallationStatus_INSTALLATION_STATUS_IN_PROGRESS
	state := &platformv1.HeartbeatRequest{}
	// A state that cannot be decoded comes from an incompatible version; the
	// next full heartbeat replaces it.
	if len(runtime.State) == 0 || proto.Unmarshal(runtime.State, state) != nil {
		message.Sync = platformv1.SyncStatus_SYNC_STATUS_COMPLETE_INSTALLATION
		message.PendingSteps = []platformv1.CompletionStep{
			platformv1.CompletionStep_COMPLETION_STEP_GIT_CREDENTIALS,
			platformv1.CompletionStep_COMPLETION_STEP_USER_TOKEN,
			platformv1.CompletionStep_COMPLETION_STEP_RUNTIME_APPLICATION,
		}
		return
	}
	message.PendingSteps = state.GetPendingSteps()
	message.Components, message.GitSources, message.Clusters = state.GetComponents(), state.GetGitSources(), state.GetClusters()
	message.GitTokenExpiresAt = state.GetGitTokenExpiresAt()
	message.Sync = state.GetSync()
	if len(message.PendingSteps) > 0 {
		message.Sync = platformv1.SyncStatus_SYNC_STATUS_COMPLETE_INSTALLATION
	} else {
		message.Installation = platformv1.InstallationStatus_INSTALLATION_STATUS_COMPLETED
	}
	if !message.Online {
		message.HealthMessage = "the runtime is offline since " + runtime.HeartbeatAt.UTC().Format(time.RFC3339)
		return
	}
	message.Health, message.HealthMessage = state.GetHealth(), state.GetHealthMessage()
}
