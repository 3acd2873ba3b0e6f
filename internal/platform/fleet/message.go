package fleet

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// message is a runtime as callers see it.
func (f *Fleet) message(runtime store.Runtime) *platformv1.Runtime {
	message := &platformv1.Runtime{
		Id: runtime.ID, Name: runtime.Name, Namespace: runtime.Namespace, Cluster: runtime.Cluster,
		KubernetesVersion: runtime.KubernetesVersion, Version: runtime.Version, ChartVersion: runtime.ChartVersion,
		AccessMode: platformv1.AccessMode(runtime.AccessMode), AccessUrl: runtime.AccessURL, IngressClass: runtime.IngressClass,
		Online: f.online(runtime), LastHeartbeatAt: instant(runtime.HeartbeatAt), RegisteredAt: instant(runtime.RegisteredAt),
		ConfigurationRuntime: runtime.ConfigurationRuntime, Uninstalling: runtime.Uninstalling,
	}
	if host := f.tunnelHost(runtime); host != "" && message.GetAccessMode() == platformv1.AccessMode_ACCESS_MODE_TUNNEL {
		message.AccessUrl = "https://" + host
	}
	if newer(f.options.Version, runtime.Version) {
		message.UpdateAvailable = f.options.Version
	}
	f.tellState(message, runtime)
	return message
}

// tellState adds what the last heartbeat said. Before the first one, all steps of
// the installation are pending (R61, R63).
func (f *Fleet) tellState(message *platformv1.Runtime, runtime store.Runtime) {
	message.Sync, message.Health = platformv1.SyncStatus_SYNC_STATUS_UNKNOWN, platformv1.HealthStatus_HEALTH_STATUS_UNKNOWN
	message.Installation = platformv1.InstallationStatus_INSTALLATION_STATUS_IN_PROGRESS
	state := &platformv1.HeartbeatRequest{}
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

// instant is a time of a message; none for the zero time.
func instant(at time.Time) *timestamppb.Timestamp {
	if at.IsZero() {
		return nil
	}
	return timestamppb.New(at)
}
