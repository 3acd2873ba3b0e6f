package gitsource_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/agent/sharedrepo"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/rights"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/runtimev1"
	"slipway.dev/slipway/internal/wire/runtimev1/runtimev1connect"
)

// policy gives the group shop-team everything in the project shop, and the group
// readers the right to look at it.
func (w *world) policy() (*rights.Policy, error) {
	parsed, refused := rights.ParseProject("shop", []rights.ProjectRole{
		{Name: "team", Groups: []string{"shop-team"}, Policies: []string{"p, proj:shop:team, applications, *, shop/*, allow"}},
		{Name: "readers", Groups: []string{"readers"}, Policies: []string{"p, proj:shop:readers, applications, get, shop/*, allow"}},
	}, rights.Glob)
	if len(refused) > 0 {
		return nil, errors.New(refused[0].Message)
	}
	return parsed, nil
}

// register stores a token of Ada.
func (w *world) register(t *testing.T, token string) {
	t.Helper()
	must.Get(w.integrations.Register(w.ada(t.Context(), permission.RoleRestricted), connect.NewRequest(&runtimev1.RegisterRequest{Token: token})))(t)
}

// written checks author, committer and token of a commit of the Shared
// Configuration Repository.
func (w *world) written(t *testing.T, commit, committer, token string) {
	t.Helper()
	who := w.shared(t).Git(t, "log", "-1", "--format=%an <%ae>|%cn <%ce>", commit)
	if want := "Ada Lovelace <ada@example.com>|" + committer; who != want {
		t.Errorf("the commit is of %q, not %q", who, want)
	}
	if pushers := w.git.Pushers(); len(pushers) == 0 || pushers[len(pushers)-1] != token {
		t.Errorf("the last push is of another token than %s", token)
	}
}

// TestUserToken: what a user does in Git is committed by that user and pushed
// with that user's own token; one that may not write is refused, with the command
// that sets another, and the runtime's is not used instead. Without a token the
// runtime pushes with its own, for the user as the author. (R17, R70)
func TestUserToken(t *testing.T) {
	w := newWorld(t)
	_, url := w.repository(t, "team/apps", map[string]string{"x.yaml": ""})
	w.credentials(t, &runtimev1.SetRuntimeCredentialsRequest{})
	must.Do(t, w.home.Ensure(t.Context()))
	const ada, runtime = "Ada Lovelace <ada@example.com>", "Slipway runtime demo <demo@runtime.slipway.invalid>"

	made := must.Get(w.client.CreateGitSource(t.Context(), connect.NewRequest(&runtimev1.CreateGitSourceRequest{GitSource: &runtimev1.GitSource{Name: "before", RepoUrl: url}})))(t)
	w.written(t, made.Msg.GetCommit(), runtime, runtimeToken)

	w.register(t, adaToken)
	source := &runtimev1.GitSource{Name: "own", RepoUrl: url}
	made = must.Get(w.client.CreateGitSource(t.Context(), connect.NewRequest(&runtimev1.CreateGitSourceRequest{GitSource: source})))(t)
	w.written(t, made.Msg.GetCommit(), ada, adaToken)
	source.Path = "sub"
	edited := must.Get(w.client.EditGitSource(t.Context(), connect.NewRequest(&runtimev1.EditGitSourceRequest{GitSource: source})))(t)
	w.written(t, edited.Msg.GetCommit(), ada, adaToken)
	w.chart = sharedrepo.Chart{Repository: "oci://registry.example.com/charts", Version: "1.2.3"}
	_, commit, err := w.home.Configure(w.ada(t.Context(), permission.RoleAdmin))
	must.Do(t, err)
	w.written(t, commit, ada, adaToken)

	w.register(t, readToken)
	before := len(w.git.Pushers())
	_, err = w.client.DeleteGitSource(t.Context(), connect.NewRequest(&runtimev1.DeleteGitSourceRequest{Name: "own"}))
	refused(t, err, connect.CodeFailedPrecondition, "does not allow the push", "slipway integration git register --runtime demo", "slipway integration git deregister --runtime demo")
	if strings.Contains(fmt.Sprint(err), "canary0") || len(w.git.Pushers()) != before {
		t.Errorf("a refused push shows the token, or was made with another: %v", err)
	}
	w.register(t, adaToken)
	deleted := must.Get(w.client.DeleteGitSource(t.Context(), connect.NewRequest(&runtimev1.DeleteGitSourceRequest{Name: "own"})))(t)
	w.written(t, deleted.Msg.GetCommit(), ada, adaToken)
	if strings.Contains(w.log.String(), "canary0") {
		t.Error("a token is in the log")
	}
}

// TestTokenOfAnotherServer: the tokens of users are not sent to a server that an
// admin names as that of the Shared Configuration Repository.
func TestTokenOfAnotherServer(t *testing.T) {
	w := newWorld(t)
	w.credentials(t, &runtimev1.SetRuntimeCredentialsRequest{})
	w.register(t, adaToken)
	for _, elsewhere := range []string{"https://git.example.com/team/config.git", "https://127.0.0.1.example.com/team/config.git"} {
		_, err := w.integrations.UserAccess(w.ada(t.Context(), permission.RoleAdmin), elsewhere)
		refused(t, err, connect.CodeInvalidArgument, "example.com")
	}
}

// TestTokenInsteadOfSSH: where the runtime uses SSH, a user's token is used with
// the address for HTTPS that the provider has.
func TestTokenInsteadOfSSH(t *testing.T) {
	w := newWorld(t)
	w.credentials(t, &runtimev1.SetRuntimeCredentialsRequest{})
	must.Do(t, w.home.Ensure(t.Context()))
	w.register(t, adaToken)
	access := must.Get(w.integrations.UserAccess(w.ada(t.Context(), permission.RoleAdmin), "ssh://git@127.0.0.1:2222/team/config.git"))(t)
	if given := access.Access.Credential; access.RepoURL != w.provider.URL+"/team/config.git" || given.Password.Reveal() != adaToken || given.Username != "x-access-token" || !given.SSHPrivateKey.IsZero() {
		t.Errorf("the access is %+v", access)
	}
}

// TestRights: a user without the role admin who has rights on the project makes,
// changes and deletes Git Sources there, without and with an own token, and
// nowhere else.
func TestRights(t *testing.T) {
	w := newWorld(t)
	_, url := w.repository(t, "team/apps", map[string]string{"x.yaml": ""})
	w.credentials(t, &runtimev1.SetRuntimeCredentialsRequest{})
	must.Do(t, w.home.Ensure(t.Context()))
	w.Apply(t, w.namespace, fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: shop}
spec:
  sourceRepos: [%q]
  destinations: [{server: https://kubernetes.default.svc, namespace: shop}]
`, url))
	team := w.serve(t, permission.RoleRestricted, "shop-team")
	source := func(name string) *runtimev1.GitSource {
		return &runtimev1.GitSource{Name: name, RepoUrl: url, Project: "shop", DestinationNamespace: "shop"}
	}
	make := func(one *runtimev1.GitSource, repository bool) error {
		_, err := team.CreateGitSource(t.Context(), connect.NewRequest(&runtimev1.CreateGitSourceRequest{GitSource: one, CreateRepository: repository}))
		return err
	}
	must.Do(t, make(source("more"), false))
	w.register(t, adaToken)
	must.Do(t, make(source("apps"), false))
	if pushers := w.git.Pushers(); !slices.Equal(pushers[len(pushers)-2:], []string{runtimeToken, adaToken}) {
		t.Error("the last push is not of the user's token, or the one before is not of the runtime's")
	}

	// What the project does not allow, or another project, is refused before
	// the runtime connects to anything.
	requests := len(w.git.Requests())
	elsewhere := source("other")
	elsewhere.RepoUrl = w.provider.URL + "/team/guestbook.git"
	refused(t, make(elsewhere, false), connect.CodeFailedPrecondition, "project shop")
	control := source("other")
	control.DestinationNamespace = ""
	refused(t, make(control, false), connect.CodeFailedPrecondition, "spec.destinations")
	foreign := source("other")
	foreign.Project = "default"
	refused(t, make(foreign, false), connect.CodePermissionDenied, "create", "default/other")
	refused(t, make(source("new"), true), connect.CodePermissionDenied, "role admin")
	if now := w.git.Requests(); len(now) != requests {
		t.Errorf("the runtime asked the Git server for a refused Git Source: %v", now[requests:])
	}

	// One of another project is not there for the team.
	must.Get(w.client.CreateGitSource(t.Context(), connect.NewRequest(&runtimev1.CreateGitSourceRequest{GitSource: &runtimev1.GitSource{Name: "bank", RepoUrl: url}})))(t)
	_, err := team.EditGitSource(t.Context(), connect.NewRequest(&runtimev1.EditGitSourceRequest{GitSource: source("bank")}))
	refused(t, err, connect.CodeNotFound)
	_, err = team.DeleteGitSource(t.Context(), connect.NewRequest(&runtimev1.DeleteGitSourceRequest{Name: "bank"}))
	refused(t, err, connect.CodeNotFound)
	reader := w.serve(t, permission.RoleRestricted, "readers")
	_, err = reader.DeleteGitSource(t.Context(), connect.NewRequest(&runtimev1.DeleteGitSourceRequest{Name: "apps"}))
	refused(t, err, connect.CodePermissionDenied, "delete", "shop/apps")
	_, err = reader.EditGitSource(t.Context(), connect.NewRequest(&runtimev1.EditGitSourceRequest{GitSource: source("apps")}))
	refused(t, err, connect.CodePermissionDenied, "update", "shop/apps")
	// Lists have what the user may get, with the rights, and whether the user
	// may create one in some project.
	for _, tt := range []struct {
		client runtimev1connect.GitSourceServiceClient
		want   string
	}{
		{w.serve(t, permission.RoleRestricted), "false"},
		{w.serve(t, permission.RoleViewer), "false apps[] bank[] more[]"},
		{reader, "false apps[] more[]"},
		{team, "true apps[update delete] more[update delete]"},
		{w.client, "true apps[update delete] bank[update delete] more[update delete]"},
	} {
		list := must.Get(tt.client.ListGitSources(t.Context(), connect.NewRequest(&runtimev1.ListGitSourcesRequest{})))(t)
		got := fmt.Sprint(list.Msg.GetMayCreate())
		for _, one := range list.Msg.GetGitSources() {
			got += fmt.Sprint(" ", one.GetName(), one.GetRights())
		}
		if got != tt.want {
			t.Errorf("a user sees %q, want %q", got, tt.want)
		}
	}
	must.Get(team.EditGitSource(t.Context(), connect.NewRequest(&runtimev1.EditGitSourceRequest{GitSource: source("apps")})))(t)
	must.Get(team.DeleteGitSource(t.Context(), connect.NewRequest(&runtimev1.DeleteGitSourceRequest{Name: "apps"})))(t)
}
