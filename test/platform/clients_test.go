package platform

import (
	"context"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

const email = "admin@localhost"

// api are the services with one credential.
type api struct {
	auth         platformv1connect.AuthServiceClient
	factors      platformv1connect.SecondFactorServiceClient
	keys         platformv1connect.KeyServiceClient
	runtimes     platformv1connect.RuntimeServiceClient
	applications platformv1connect.ApplicationServiceClient
	agent        platformv1connect.AgentServiceClient
	audit        platformv1connect.AuditServiceClient
}

// audited returns the actions of a kind in the audit log with their actors and
// outcomes, the oldest first.
func (a api) audited(t *testing.T, action string) string {
	t.Helper()
	list := must.Get(a.audit.ListEntries(t.Context(), connect.NewRequest(&platformv1.ListEntriesRequest{Action: action, OldestFirst: true})))(t)
	var lines []string
	for _, entry := range list.Msg.GetEntries() {
		lines = append(lines, strings.Join([]string{entry.GetActor(), entry.GetTarget(), entry.GetOutcome(), entry.GetDetail()}, "|"))
	}
	return strings.Join(lines, "\n")
}

func dial(t *testing.T, client *http.Client, url string) api {
	t.Helper()
	return api{
		auth: platformv1connect.NewAuthServiceClient(client, url), keys: platformv1connect.NewKeyServiceClient(client, url),
		factors:      platformv1connect.NewSecondFactorServiceClient(client, url),
		runtimes:     platformv1connect.NewRuntimeServiceClient(client, url),
		audit:        platformv1connect.NewAuditServiceClient(client, url),
		applications: platformv1connect.NewApplicationServiceClient(client, url), agent: platformv1connect.NewAgentServiceClient(client, url),
	}
}

// with gives the services of a platform with a bearer token.
func (p *process) with(t *testing.T, token string) api {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return dial(t, &http.Client{Transport: programs.Bearer(token, transport)}, p.url)
}

// chosenPassword is the password of the admin after the first sign-in.
const chosenPassword = "correct horse battery staple"

// browser returns the services of a platform with an empty cookie jar, and the
// CSRF token that they send.
func (p *process) browser(t *testing.T) (api, *string) {
	t.Helper()
	jar := must.Get(cookiejar.New(nil))(t)
	token, transport := new(string), &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return dial(t, &http.Client{Jar: jar, Transport: programs.Header{Name: wire.CSRFHeader, Value: token, Next: transport}}, p.url), token
}

// firstKey signs in with the printed password, chooses another, and makes a key.
func (p *process) firstKey(t *testing.T) string {
	t.Helper()
	session, token := p.browser(t)
	signIn := func(password string) {
		t.Helper()
		*token = ""
		answer := must.Get(session.auth.SignIn(t.Context(), connect.NewRequest(&platformv1.SignInRequest{Email: email, Password: password})))(t)
		*token = answer.Msg.GetCsrfToken()
	}
	signIn(p.Password(t))
	_, err := session.keys.CreateKey(t.Context(), connect.NewRequest(&platformv1.CreateKeyRequest{Name: "early"}))
	if connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("a one-time password is good for more than choosing another: %v", err)
	}
	must.Get(session.auth.ChangePassword(t.Context(), connect.NewRequest(&platformv1.ChangePasswordRequest{OldPassword: p.Password(t), NewPassword: chosenPassword})))(t)
	signIn(chosenPassword)
	key := must.Get(session.keys.CreateKey(t.Context(), connect.NewRequest(&platformv1.CreateKeyRequest{Name: "tests"})))(t)
	return key.Msg.GetSecret()
}

// join registers a runtime.
func join(t *testing.T, admin api, name string) *platformv1.Credential {
	t.Helper()
	answer := must.Get(admin.runtimes.RegisterRuntime(t.Context(), connect.NewRequest(&platformv1.RegisterRuntimeRequest{
		Name: name, Namespace: "slipway", Cluster: name, ClusterUid: "uid-" + name, Version: "1.0.0", AccessMode: platformv1.AccessMode_ACCESS_MODE_TUNNEL,
	})))(t)
	return answer.Msg.GetCredential()
}

func heartbeat(t *testing.T, agent api) {
	t.Helper()
	must.Get(agent.agent.Heartbeat(t.Context(), connect.NewRequest(&platformv1.HeartbeatRequest{Version: "1.0.0", AccessMode: platformv1.AccessMode_ACCESS_MODE_TUNNEL})))(t)
}

func resyncBegin(number int64) *platformv1.ReportEvent {
	return &platformv1.ReportEvent{Number: number, Event: &platformv1.ReportEvent_ResyncBegin{ResyncBegin: true}}
}

func resyncEnd(number int64) *platformv1.ReportEvent {
	return &platformv1.ReportEvent{Number: number, Event: &platformv1.ReportEvent_ResyncEnd{ResyncEnd: true}}
}

func application(number int64, name string) *platformv1.ReportEvent {
	return &platformv1.ReportEvent{Number: number, Event: &platformv1.ReportEvent_Application{Application: &platformv1.Application{
		Namespace: "argocd", Name: name, Uid: "uid-" + name, Sync: "Synced", Health: "Healthy",
	}}}
}

func report(ctx context.Context, agent api, events ...*platformv1.ReportEvent) (*platformv1.ReportResponse, error) {
	answer, err := agent.agent.Report(ctx, connect.NewRequest(&platformv1.ReportRequest{Stream: "s", Events: events}))
	if err != nil {
		return nil, err
	}
	return answer.Msg, nil
}

func total(t *testing.T, admin api) int32 {
	t.Helper()
	answer := must.Get(admin.applications.ListApplications(t.Context(), connect.NewRequest(&platformv1.ListApplicationsRequest{})))(t)
	return answer.Msg.GetTotal()
}

// within gives a context that is longer than anything should take.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}
