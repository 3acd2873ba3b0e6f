package integration_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/url"
	"testing"
	"time"

	"connectrpc.com/connect"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/agent/integration"
	"slipway.dev/slipway/internal/gitprovider/providertest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/runtimev1"
	"slipway.dev/slipway/internal/wire/runtimev1/runtimev1connect"
)

// callback is where the platform takes browsers that come back.
const callback = platformURL + "/git/callback"

// application registers the OAuth application as an admin does.
func (w *world) application(t *testing.T) {
	t.Helper()
	must.Get(w.Client.CoreV1().Secrets(w.namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "slipway-oauth-github"},
		Data:       map[string][]byte{"clientId": []byte("client"), "clientSecret": []byte("canary0client")},
	}, metav1.CreateOptions{}))(t)
}

func begin(t *testing.T, client runtimev1connect.IntegrationServiceClient, request *runtimev1.BeginOAuthRequest) *runtimev1.BeginOAuthResponse {
	t.Helper()
	answer := must.Get(client.BeginOAuth(t.Context(), connect.NewRequest(request)))(t)
	return answer.Msg
}

// agree is what the browser of a user does: it gives the code that comes back.
func (w *world) agree(t *testing.T, address string) string {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(w.provider.CA)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	defer transport.CloseIdleConnections()
	browser := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil))(t)
	response := must.Get(browser.Do(request))(t)
	_ = response.Body.Close()
	back, err := url.Parse(response.Header.Get("Location"))
	if err != nil || back.Host == "" {
		t.Fatalf("the browser is not sent back: %s", response.Status)
	}
	return back.Query().Get("code")
}

func finish(t *testing.T, client runtimev1connect.IntegrationServiceClient, state, code string) (*runtimev1.TokenStatus, error) {
	t.Helper()
	answer, err := client.FinishOAuth(t.Context(), connect.NewRequest(&runtimev1.FinishOAuthRequest{State: state, Code: code}))
	if err != nil {
		return nil, err
	}
	return answer.Msg.GetStatus(), nil
}

// TestOAuth: a login with the provider ends with a stored token. It is for the
// user who began it, once, within ten minutes, also at another replica. (R64)
func TestOAuth(t *testing.T) {
	w := newWorld(t)
	w.trust(t)
	ada := w.user("ada")
	_, err := ada.BeginOAuth(t.Context(), connect.NewRequest(&runtimev1.BeginOAuthRequest{RedirectUrl: callback}))
	refused(t, err, connect.CodeFailedPrecondition, "slipway-oauth-github", "registers")
	w.application(t)
	for _, bad := range []string{"", "https://evil.example.com/git/callback", "http://platform.example.com/git/callback"} {
		_, err := ada.BeginOAuth(t.Context(), connect.NewRequest(&runtimev1.BeginOAuthRequest{RedirectUrl: bad}))
		refused(t, err, connect.CodeInvalidArgument, "platform")
	}
	_, err = ada.BeginOAuth(t.Context(), connect.NewRequest(&runtimev1.BeginOAuthRequest{RedirectUrl: callback, RuntimeToken: true}))
	refused(t, err, connect.CodePermissionDenied)

	w.provider.SetToken(providertest.Token{Value: "access-1001", Login: "ada", Scopes: []string{"repo"}, Roles: map[string]string{"team": "write"}, OAuth: true})
	begun := begin(t, ada, &runtimev1.BeginOAuthRequest{RedirectUrl: callback})
	code := w.agree(t, begun.GetUrl())
	_, err = finish(t, w.user("bob"), begun.GetState(), code)
	refused(t, err, connect.CodeFailedPrecondition, "begin again")
	_, err = finish(t, ada, begun.GetState()+"x", code)
	refused(t, err, connect.CodeFailedPrecondition, "begin again")

	w.service = integration.New(integration.Options{
		Cluster: w.Cluster.Cluster, Namespace: w.namespace, Runtime: "demo",
		Settings: func() *platformv1.GitSettings { return w.settings }, Now: func() time.Time { return w.clock },
	})
	w.serve(t)
	ada = w.user("ada")
	status, err := finish(t, ada, begun.GetState(), code)
	if err != nil || status.GetLogin() != "ada" || status.GetState() != "ok" {
		t.Fatalf("the status is %v: %v", status, err)
	}
	if token, _, err := w.service.UserToken(t.Context(), "", "ada"); err != nil || token.Reveal() != "access-1001" {
		t.Errorf("another token is stored: %v", err)
	}
	_, err = finish(t, ada, begun.GetState(), code)
	refused(t, err, connect.CodeFailedPrecondition, "begin again")

	late := begin(t, ada, &runtimev1.BeginOAuthRequest{RedirectUrl: callback})
	w.clock = w.clock.Add(10 * time.Minute)
	_, err = finish(t, ada, late.GetState(), w.agree(t, late.GetUrl()))
	refused(t, err, connect.CodeFailedPrecondition, "ten minutes")
}

// TestOAuthRenews: tokens of a login end after hours; they are renewed before they
// are used, and the runtime's by the daily look.
func TestOAuthRenews(t *testing.T) {
	w := newWorld(t)
	w.trust(t)
	w.application(t)
	for _, value := range []string{"access-1001", "access-1002", "access-1003", "access-1004"} {
		w.provider.SetToken(providertest.Token{
			Value: value, Login: "ada", Scopes: []string{"repo", "admin:repo_hook"}, Roles: map[string]string{"team": "admin"}, OAuth: true,
		})
	}
	begun := begin(t, w.user("ada"), &runtimev1.BeginOAuthRequest{RedirectUrl: callback})
	must.Get(finish(t, w.user("ada"), begun.GetState(), w.agree(t, begun.GetUrl())))(t)
	begun = begin(t, w.admin(), &runtimev1.BeginOAuthRequest{RedirectUrl: callback, RuntimeToken: true})
	must.Get(finish(t, w.admin(), begun.GetState(), w.agree(t, begun.GetUrl())))(t)
	w.clock = w.clock.Add(110 * time.Minute)
	if token, _, err := w.service.UserToken(t.Context(), "", "ada"); err != nil || token.Reveal() != "access-1003" {
		t.Errorf("the token of the user is not the next one: %v", err)
	}
	w.service.Recheck(t.Context())
	access, err := w.service.RuntimeAccess(t.Context(), w.settings.GetSharedRepository())
	if err != nil || access.Credential.Password.Reveal() != "access-1004" {
		t.Errorf("the token of the runtime is not the next one: %v\n%s", err, w.log.String())
	}
	if token, _, err := w.service.UserToken(t.Context(), "", "ada"); err != nil || token.Reveal() != "access-1003" {
		t.Errorf("the token of the user changed again: %v", err)
	}
}
