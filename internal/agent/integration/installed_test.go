package integration_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// token returns the token of the runtime; empty if there is none.
func (w *world) token(t *testing.T) string {
	t.Helper()
	found, err := w.Client.CoreV1().Secrets(w.namespace).Get(t.Context(), "slipway-git-runtime", metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return string(found.Data["token"])
}

// TestInstalledCredential: R37, R63: a token of the values becomes that of the runtime
// once it is accepted, and each change of it. One without the scopes is not stored, and
// the reason is shown. An admin's token wins until the values change, and no token of
// the values is sent to a server that the account names later.
func TestInstalledCredential(t *testing.T) {
	w := newWorld(t)
	w.trust(t)
	install := func(token string) {
		t.Helper()
		w.service.Install("robot", secret.New(token))
		w.service.Recheck(t.Context())
	}
	settings := w.settings
	w.settings = &platformv1.GitSettings{}
	install(runtimeToken)
	if w.token(t) != "" || w.service.InstalledProblem() != nil {
		t.Errorf("without a provider the token is %q: %v", w.token(t), w.service.InstalledProblem())
	}
	w.settings = settings

	install(weakToken)
	if err := w.service.InstalledProblem(); w.token(t) != "" || err == nil || !strings.Contains(err.Error(), "admin:repo_hook") || strings.Contains(err.Error(), weakToken) {
		t.Errorf("a weak token is stored as %q: %v", w.token(t), err)
	}
	w.service.Recheck(t.Context())
	if told := strings.Count(w.log.String(), "cannot use Git credentials of the installation"); told != 1 {
		t.Errorf("it is logged %d times", told)
	}

	install(runtimeToken)
	if err := w.service.InstalledProblem(); w.token(t) != runtimeToken || err != nil || w.changes != 1 {
		t.Errorf("the token is %q after %d changes: %v", w.token(t), w.changes, err)
	}
	w.pending(t, platformv1.CompletionStep_COMPLETION_STEP_USER_TOKEN, platformv1.CompletionStep_COMPLETION_STEP_RUNTIME_APPLICATION)
	access := must.Get(w.service.RuntimeAccess(t.Context(), w.settings.GetSharedRepository()))(t)
	if access.Credential.Username != "robot" || access.Credential.Password.Reveal() != runtimeToken {
		t.Errorf("the credential for the repository is %+v", access.Credential)
	}
	w.service.Recheck(t.Context())
	if w.changes != 1 {
		t.Error("the same token is stored again")
	}

	must.Get(w.set(t, &runtimev1.SetRuntimeCredentialsRequest{Token: adaToken, SkipValidation: true}))(t)
	w.service.Recheck(t.Context())
	if w.token(t) != adaToken {
		t.Errorf("the token of an admin is replaced by %q", w.token(t))
	}

	// Another server, for which an admin sets a token.
	w.settings = &platformv1.GitSettings{Provider: "gitlab", ApiUrl: "https://127.0.0.1:1", SharedRepository: "https://127.0.0.1:1/team/config.git"}
	w.service.Recheck(t.Context())
	must.Get(w.set(t, &runtimev1.SetRuntimeCredentialsRequest{Token: bobToken, SkipValidation: true}))(t)
	w.service.Recheck(t.Context())
	if err := w.service.InstalledProblem(); w.token(t) != bobToken || err != nil {
		t.Errorf("with another server the token is %q: %v", w.token(t), err)
	}
}
