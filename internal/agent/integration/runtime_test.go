package integration_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/crypto/ssh"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/agent/integration"
	"slipway.dev/slipway/internal/gitops/source/remote"
	"slipway.dev/slipway/internal/gitprovider/providertest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// sshKey is a new private key and the line of a host with it.
func sshKey(t *testing.T, host string) (key, line string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	must.Do(t, err)
	block := must.Get(ssh.MarshalPrivateKey(private, "canary"))(t)
	shown := must.Get(ssh.NewPublicKey(public))(t)
	return string(pem.EncodeToMemory(block)), host + " " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(shown)))
}

// set sets credentials as an admin.
func (w *world) set(t *testing.T, request *runtimev1.SetRuntimeCredentialsRequest) (*runtimev1.TokenStatus, error) {
	t.Helper()
	answer, err := w.admin().SetRuntimeCredentials(t.Context(), connect.NewRequest(request))
	if err != nil {
		return nil, err
	}
	return answer.Msg.GetStatus(), nil
}

// TestRuntimeCredentials: the token of the runtime is checked before it is stored
// and then opens repositories of its host, and of no other, with the authority
// that came with it. Its end is shown. Setting it is the first of the steps after
// the installation. (R16, R63, R65, R114)
func TestRuntimeCredentials(t *testing.T) {
	w := newWorld(t)
	w.pending(t, platformv1.CompletionStep_COMPLETION_STEP_GIT_CREDENTIALS, platformv1.CompletionStep_COMPLETION_STEP_USER_TOKEN, platformv1.CompletionStep_COMPLETION_STEP_RUNTIME_APPLICATION)
	authorities := string(w.provider.CA)
	_, err := w.set(t, &runtimev1.SetRuntimeCredentialsRequest{Token: adaToken, CertificateAuthorities: authorities})
	refused(t, err, connect.CodeFailedPrecondition, "admin:repo_hook")
	if found, _ := w.Client.CoreV1().Secrets(w.namespace).List(t.Context(), metav1.ListOptions{}); len(found.Items) != 0 {
		t.Errorf("%d Secrets are there after a refusal", len(found.Items))
	}
	if _, err := w.service.RuntimeAccess(t.Context(), w.settings.GetSharedRepository()); err == nil || !strings.HasSuffix(err.Error(), "slipway integration git set-runtime-token --runtime demo --token-file FILE") {
		t.Errorf("without credentials: %v", err)
	}
	_, err = w.user("ada").SetRuntimeCredentials(t.Context(), connect.NewRequest(&runtimev1.SetRuntimeCredentialsRequest{Token: runtimeToken}))
	refused(t, err, connect.CodePermissionDenied)

	status := must.Get(w.set(t, &runtimev1.SetRuntimeCredentialsRequest{Token: runtimeToken, CertificateAuthorities: authorities}))(t)
	if status.GetState() != "ok" || status.GetLogin() != "robot" || status.GetExpiresAt().AsTime().Sub(w.clock) < 29*24*time.Hour {
		t.Errorf("the status is %v", status)
	}
	if w.changes != 1 {
		t.Errorf("the change was told %d times", w.changes)
	}
	access, err := w.service.RuntimeAccess(t.Context(), w.settings.GetSharedRepository())
	if err != nil || access.Credential.Username != "x-access-token" || access.Credential.Password.Reveal() != runtimeToken || string(access.Authorities) != authorities {
		t.Errorf("the credential for the repository is %+v: %v", access.Credential, err)
	}
	access, err = w.service.Access(t.Context(), "", "https://127.0.0.2/team/config.git")
	if err != nil || access.Credential.HasIdentity() || len(access.Authorities) > 0 {
		t.Errorf("another host gets a credential: %v", err)
	}
	w.pending(t, platformv1.CompletionStep_COMPLETION_STEP_USER_TOKEN, platformv1.CompletionStep_COMPLETION_STEP_RUNTIME_APPLICATION)
	must.Get(w.user("ada").Register(t.Context(), register(adaToken)))(t)
	w.pending(t, platformv1.CompletionStep_COMPLETION_STEP_RUNTIME_APPLICATION)
}

func (w *world) pending(t *testing.T, want ...platformv1.CompletionStep) {
	t.Helper()
	got, err := w.service.Pending(t.Context())
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("the steps are %v, not %v: %v", got, want, err)
	}
}

// TestRuntimeSSH: a key with pinned hosts is stored beside the token, for the Git
// host and its ports; another token leaves it. Keys with a passphrase, hosts that
// are not known and lines of other hosts are refused. (R66, R67)
func TestRuntimeSSH(t *testing.T) {
	w := newWorld(t)
	w.trust(t)
	key, line := sshKey(t, "[127.0.0.1]:2222")
	_, other := sshKey(t, "evil.example.com")
	for name, request := range map[string]*runtimev1.SetRuntimeCredentialsRequest{
		"is not known":             {Token: runtimeToken, SshPrivateKey: key},
		"not for the Git server":   {Token: runtimeToken, SshPrivateKey: key, KnownHosts: line + "\n" + other},
		"hidden name":              {Token: runtimeToken, SshPrivateKey: key, KnownHosts: "|1|abc|def ssh-ed25519 AAAA"},
		"cannot be read":           {Token: runtimeToken, SshPrivateKey: key[:60], KnownHosts: line},
		"not PEM text":             {Token: runtimeToken, CertificateAuthorities: key},
		"give the Git token":       {SshPrivateKey: key, KnownHosts: line},
		"lines as ssh-keyscan pri": {Token: runtimeToken, SshPrivateKey: key, KnownHosts: "127.0.0.1 nonsense"},
	} {
		_, err := w.set(t, request)
		refused(t, err, connect.CodeInvalidArgument, name)
	}
	must.Get(w.set(t, &runtimev1.SetRuntimeCredentialsRequest{Token: runtimeToken, SshPrivateKey: key, KnownHosts: line}))(t)
	must.Get(w.set(t, &runtimev1.SetRuntimeCredentialsRequest{Token: runtimeToken}))(t)
	got, err := w.admin().GetRuntimeCredentials(t.Context(), connect.NewRequest(&runtimev1.GetRuntimeCredentialsRequest{}))
	if err != nil || !got.Msg.GetConfigured() || !got.Msg.GetSsh() {
		t.Errorf("the credentials are %v: %v", got, err)
	}
	for address, want := range map[string]bool{
		"ssh://git@127.0.0.1:2222/team/config.git": true, "git@127.0.0.1:team/config.git": true,
		"ssh://git@127.0.0.1:2223/x.git": false, "git@example.com:team/config.git": false,
	} {
		parsed := must.Get(remote.ParseAddress(address))(t)
		if ready, err := w.service.SSHReady(t.Context(), "", parsed); err != nil || ready != want {
			t.Errorf("%s: there is a key: %v, %v", address, ready, err)
		}
	}
	access, err := w.service.Access(t.Context(), "", "ssh://git@127.0.0.1:2222/team/config.git")
	if err != nil || strings.TrimSpace(string(access.KnownHosts)) != line || strings.TrimSpace(access.Credential.SSHPrivateKey.Reveal()) != strings.TrimSpace(key) {
		t.Errorf("the known hosts are %q: %v", access.KnownHosts, err)
	}
}

// TestRecheck: tokens are asked about once a day, and one that was revoked is
// flagged, in the log as well. (R114)
func TestRecheck(t *testing.T) {
	w := newWorld(t)
	w.trust(t)
	must.Get(w.set(t, &runtimev1.SetRuntimeCredentialsRequest{Token: runtimeToken}))(t)
	must.Get(w.user("ada").Register(t.Context(), register(adaToken)))(t)
	w.provider.SetToken(providertest.Token{Value: runtimeToken, Revoked: true})
	w.provider.SetToken(providertest.Token{Value: adaToken, Revoked: true})
	asked := len(w.provider.Requests())
	w.clock = w.clock.Add(23 * time.Hour)
	w.service.Recheck(t.Context())
	if got := len(w.provider.Requests()); got != asked {
		t.Errorf("%d requests within a day", got-asked)
	}
	w.clock = w.clock.Add(2 * time.Hour)
	w.service.Recheck(t.Context())
	got, err := w.admin().GetRuntimeCredentials(t.Context(), connect.NewRequest(&runtimev1.GetRuntimeCredentialsRequest{}))
	if err != nil || got.Msg.GetStatus().GetState() != "revoked" || !got.Msg.GetStatus().GetCheckedAt().AsTime().Equal(w.clock.UTC().Truncate(time.Second)) {
		t.Errorf("the status is %v: %v", got.Msg.GetStatus(), err)
	}
	list, err := w.user("ada").ListIntegrations(t.Context(), connect.NewRequest(&runtimev1.ListIntegrationsRequest{}))
	if err != nil || list.Msg.GetIntegrations()[0].GetUsers()[0].GetState() != "revoked" {
		t.Errorf("the user's status is %v: %v", list, err)
	}
	if !strings.Contains(w.log.String(), "needs attention") {
		t.Error("the log says nothing")
	}
}

// TestCanary: after everything that stores tokens, none of them is in a response,
// a log, a ConfigMap or an event, and tokens of users are in no Secret. Those of
// the runtime are in the three Secrets that need them. (R9)
func TestCanary(t *testing.T) {
	w := newWorld(t)
	w.trust(t)
	key, line := sshKey(t, "127.0.0.1")
	secrets := []string{runtimeToken, adaToken, weakToken, "canary0client", strings.Split(key, "\n")[1]}
	must.Get(w.set(t, &runtimev1.SetRuntimeCredentialsRequest{Token: runtimeToken, SshPrivateKey: key, KnownHosts: line}))(t)
	_, _ = w.set(t, &runtimev1.SetRuntimeCredentialsRequest{Token: weakToken})
	_, _ = w.set(t, &runtimev1.SetRuntimeCredentialsRequest{Token: "x", SshPrivateKey: key[:80]})
	for _, token := range []string{adaToken, weakToken} {
		_, _ = w.user("ada").Register(t.Context(), register(token))
	}
	w.provider.SetToken(providertest.Token{Value: runtimeToken, Revoked: true})
	w.provider.SetToken(providertest.Token{Value: adaToken, Expired: true})
	w.clock = w.clock.Add(25 * time.Hour)
	w.service.Recheck(t.Context())
	_, _ = w.admin().ListIntegrations(t.Context(), connect.NewRequest(&runtimev1.ListIntegrationsRequest{}))
	_, _ = w.admin().GetRuntimeCredentials(t.Context(), connect.NewRequest(&runtimev1.GetRuntimeCredentialsRequest{Check: true}))

	var shown strings.Builder
	shown.WriteString(w.log.String())
	maps := must.Get(w.Client.CoreV1().ConfigMaps(w.namespace).List(t.Context(), metav1.ListOptions{}))(t)
	events := must.Get(w.Client.CoreV1().Events(w.namespace).List(t.Context(), metav1.ListOptions{}))(t)
	shown.WriteString(maps.String() + events.String())
	all := must.Get(w.Client.CoreV1().Secrets(w.namespace).List(t.Context(), metav1.ListOptions{}))(t)
	needed := []string{"slipway-git-runtime", "slipway-git-runtime-https", "slipway-git-runtime-ssh"}
	for _, one := range all.Items {
		for field, text := range one.Data {
			if !slices.Contains(needed, one.Name) {
				shown.WriteString(one.Name + field + string(text))
			}
		}
	}
	if len(all.Items) != 5 || !strings.Contains(shown.String(), "slipway-git-default") {
		t.Errorf("there are %d Secrets", len(all.Items))
	}
	for _, text := range secrets {
		if at := strings.Index(shown.String(), text); at >= 0 {
			t.Errorf("%s is seen: %q", text, shown.String()[max(0, at-100):at])
		}
	}
}

// TestSkipValidation: an admin can store a token that lacks something, and the
// status keeps reporting what.
func TestSkipValidation(t *testing.T) {
	w := newWorld(t)
	w.trust(t)
	status, err := w.set(t, &runtimev1.SetRuntimeCredentialsRequest{Token: adaToken, SkipValidation: true})
	if err != nil || status.GetState() != "insufficient" || !slices.Contains(status.GetMissingScopes(), "admin:repo_hook") {
		t.Errorf("the status is %v: %v", status, err)
	}
	again := integration.New(integration.Options{Cluster: w.Cluster.Cluster, Namespace: w.namespace, Runtime: "demo"})
	if expires, err := again.RuntimeExpiry(t.Context()); err != nil || !expires.IsZero() {
		t.Errorf("it expires at %v: %v", expires, err)
	}
}
