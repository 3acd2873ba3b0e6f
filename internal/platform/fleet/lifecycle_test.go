package fleet_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// R61, R63, R112: a runtime is online while its heartbeats arrive, and reports what
// is pending, and which newer version there is.
func TestHeartbeat(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		agent, _ := w.join(t, "prod", "east")
		got := w.get(t, "prod")
		if got.GetOnline() || len(got.GetPendingSteps()) != 3 || got.GetSync() != platformv1.SyncStatus_SYNC_STATUS_COMPLETE_INSTALLATION ||
			got.GetInstallation() != platformv1.InstallationStatus_INSTALLATION_STATUS_IN_PROGRESS || got.GetUpdateAvailable() != "1.2.0" {
			t.Errorf("before the first heartbeat: %v", got)
		}
		if answer := heartbeat(t, agent, &platformv1.HeartbeatRequest{Unchanged: true}); !answer.GetSendAll() {
			t.Errorf("nothing is known, and nothing is asked for: %v", answer)
		}
		given := beat()
		given.PendingSteps = []platformv1.CompletionStep{platformv1.CompletionStep_COMPLETION_STEP_USER_TOKEN}
		answer := heartbeat(t, agent, given)
		if answer.GetNext().AsDuration() != 15*time.Second || answer.GetSendAll() || answer.GetUninstall() || len(answer.GetTunnelUrls()) != 1 || answer.GetPlatformKeys() == "" {
			t.Errorf("got %v", answer)
		}
		got = w.get(t, "prod")
		if !got.GetOnline() || len(got.GetPendingSteps()) != 1 || got.GetSync() != platformv1.SyncStatus_SYNC_STATUS_COMPLETE_INSTALLATION || len(got.GetComponents()) != 1 {
			t.Errorf("with a step pending: %v", got)
		}
		heartbeat(t, agent, beat())
		heartbeat(t, agent, &platformv1.HeartbeatRequest{Unchanged: true})
		got = w.get(t, "prod")
		if got.GetSync() != platformv1.SyncStatus_SYNC_STATUS_SYNCED || got.GetHealth() != platformv1.HealthStatus_HEALTH_STATUS_HEALTHY ||
			got.GetInstallation() != platformv1.InstallationStatus_INSTALLATION_STATUS_COMPLETED || got.GetVersion() != "1.1.0" {
			t.Errorf("complete: %v", got)
		}
		w.clock.pass(46 * time.Second)
		got = w.get(t, "prod")
		if got.GetOnline() || got.GetHealth() != platformv1.HealthStatus_HEALTH_STATUS_UNKNOWN || !strings.Contains(got.GetHealthMessage(), "offline since") {
			t.Errorf("silent for 46 s: %v", got)
		}
		huge := beat()
		huge.HealthMessage = strings.Repeat("x", 600<<10)
		_, err := agent.agent.Heartbeat(t.Context(), connect.NewRequest(huge))
		wantError(t, "huge", err, connect.CodeInvalidArgument, "at most")
	})
}

// R113: a runtime that is online is not deleted; one that is offline is, with all
// that is stored of it. Uninstalling is requested first.
func TestDeleteAndUninstall(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		agent, credential := w.join(t, "prod", "east")
		heartbeat(t, agent, beat())
		report(t, agent, "s", begin(1), application(2, "shop"), end(3))
		remove := func() error {
			_, err := w.admin.runtimes.DeleteRuntime(t.Context(), connect.NewRequest(&platformv1.DeleteRuntimeRequest{Name: "prod"}))
			return err
		}
		wantError(t, "online", remove(), connect.CodeFailedPrecondition, "is online")
		answer, err := w.admin.runtimes.UninstallRuntime(t.Context(), connect.NewRequest(&platformv1.UninstallRuntimeRequest{Name: "prod", CleanSharedRepository: true}))
		if err != nil || answer.Msg.GetNextCommand() != "helm uninstall slipway-runtime --namespace slipway" {
			t.Errorf("got %v, %v", answer, err)
		}
		if told := heartbeat(t, agent, beat()); !told.GetUninstall() || !told.GetCleanSharedRepository() || !w.get(t, "prod").GetUninstalling() {
			t.Errorf("the runtime does not hear of it: %v", told)
		}
		w.clock.pass(46 * time.Second)
		must.Do(t, remove())
		wantError(t, "deleted", remove(), connect.CodeNotFound, `no runtime "prod"`)
		if list := listApplications(t, w, &platformv1.ListApplicationsRequest{}); list.GetTotal() != 0 {
			t.Errorf("its applications stay: %v", list)
		}
		_, err = agent.agent.Heartbeat(t.Context(), connect.NewRequest(beat()))
		wantError(t, "a heartbeat of what is deleted", err, connect.CodeUnauthenticated, "")
		_, err = agent.agent.RenewCredential(t.Context(), connect.NewRequest(&platformv1.RenewCredentialRequest{RefreshToken: credential.GetRefreshToken()}))
		wantError(t, "a renewal of what is deleted", err, connect.CodeUnauthenticated, "register the runtime again")
	})
}

// TestUnregister: the last word of a runtime removes it while it is online.
func TestUnregister(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		agent, _ := w.join(t, "prod", "east")
		heartbeat(t, agent, beat())
		must.Get(agent.agent.Unregister(t.Context(), connect.NewRequest(&platformv1.UnregisterRequest{})))(t)
		answer, err := w.admin.runtimes.ListRuntimes(t.Context(), connect.NewRequest(&platformv1.ListRuntimesRequest{}))
		if err != nil || len(answer.Msg.GetRuntimes()) != 0 {
			t.Errorf("got %v, %v", answer, err)
		}
	})
}

// TestRenew: a refresh token is valid once, and once more if the response was lost;
// one that two parties hold ends everything.
func TestRenew(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		nobody := w.with(t, "")
		renew := func(token string) (*platformv1.Credential, error) {
			answer, err := nobody.agent.RenewCredential(t.Context(), connect.NewRequest(&platformv1.RenewCredentialRequest{RefreshToken: token}))
			if err != nil {
				return nil, err
			}
			return answer.Msg.GetCredential(), nil
		}
		_, first := w.join(t, "prod", "east")
		second := must.Get(renew(first.GetRefreshToken()))(t)
		heartbeat(t, w.with(t, second.GetAccessToken()), beat())
		lost, err := renew(first.GetRefreshToken())
		if err != nil {
			t.Fatalf("an answer that was lost: %v", err)
		}
		third := must.Get(renew(lost.GetRefreshToken()))(t)
		for name, token := range map[string]string{
			"empty": "", "other": "slwr_abc_def", "guess": third.GetRefreshToken() + "x", "long": "slwr_" + strings.Repeat("a", 1000) + "_b",
		} {
			_, err := renew(token)
			wantError(t, name, err, connect.CodeUnauthenticated, "register the runtime again")
		}
		if _, err := renew(third.GetRefreshToken()); err != nil {
			t.Fatalf("guessing ended a runtime: %v", err)
		}
		_, err = renew(first.GetRefreshToken())
		wantError(t, "the first token again", err, connect.CodePermissionDenied, "revoked")
		_, err = renew(first.GetRefreshToken())
		wantError(t, "once more", err, connect.CodePermissionDenied, "revoked")
		entries, _, err := w.store.AuditEntries(t.Context(), w.accountID, store.AuditFilter{Action: "agent.renew-credential"}, store.Page{})
		if err != nil || len(entries) != 1 {
			t.Fatalf("the audit log has %+v, %v", entries, err)
		}
		if got := entries[0]; got.Actor != "prod" || got.Runtime != "prod" || got.Outcome != "denied" || got.Code != "permission_denied" || got.Address != "127.0.0.1" ||
			strings.Contains(fmt.Sprint(got), "slwr_") {
			t.Errorf("the entry is %+v", got)
		}
	})
}

// TestRevoke: revoked credentials are good for nothing.
func TestRevoke(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		agent, credential := w.join(t, "prod", "east")
		heartbeat(t, agent, beat())
		must.Get(w.admin.runtimes.RevokeCredentials(t.Context(), connect.NewRequest(&platformv1.RevokeCredentialsRequest{Name: "prod"})))(t)
		_, err := agent.agent.Heartbeat(t.Context(), connect.NewRequest(beat()))
		wantError(t, "heartbeat", err, connect.CodeUnauthenticated, "")
		_, err = agent.agent.RenewCredential(t.Context(), connect.NewRequest(&platformv1.RenewCredentialRequest{RefreshToken: credential.GetRefreshToken()}))
		wantError(t, "renewal", err, connect.CodePermissionDenied, "a new API key")
		again, _ := w.join(t, "prod", "east")
		heartbeat(t, again, beat())
	})
}

// TestAccountsAreApart: users cannot see or change the runtimes of another account,
// and a name may be there twice.
func TestAccountsAreApart(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		agent, _ := w.join(t, "prod", "east")
		heartbeat(t, agent, beat())
		report(t, agent, "s", begin(1), application(2, "shop"), end(3))
		other := must.Get(w.store.CreateAccount(t.Context(), store.Account{Name: "other"}))(t)
		w.accountID = other.ID
		stranger := w.with(t, w.key(t, store.RoleAdmin, identity.ScopeAll))
		list, err := stranger.runtimes.ListRuntimes(t.Context(), connect.NewRequest(&platformv1.ListRuntimesRequest{}))
		if err != nil || len(list.Msg.GetRuntimes()) != 0 {
			t.Errorf("runtimes: %v, %v", list, err)
		}
		applications, err := stranger.applications.ListApplications(t.Context(), connect.NewRequest(&platformv1.ListApplicationsRequest{}))
		if err != nil || applications.Msg.GetTotal() != 0 {
			t.Errorf("applications: %v, %v", applications, err)
		}
		_, err = stranger.runtimes.RevokeCredentials(t.Context(), connect.NewRequest(&platformv1.RevokeCredentialsRequest{Name: "prod"}))
		wantError(t, "revoke", err, connect.CodeNotFound, "no runtime")
		_, err = stranger.runtimes.UninstallRuntime(t.Context(), connect.NewRequest(&platformv1.UninstallRuntimeRequest{Name: "prod"}))
		wantError(t, "uninstall", err, connect.CodeNotFound, "no runtime")
		if _, err := stranger.runtimes.RegisterRuntime(t.Context(), connect.NewRequest(registration("prod", "east"))); err != nil {
			t.Errorf("the same name and cluster: %v", err)
		}
		heartbeat(t, agent, beat())
	})
}
