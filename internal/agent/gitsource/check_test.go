package gitsource_test

import (
	"context"
	"testing"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/agent/gitsource"
	"slipway.dev/slipway/internal/agent/sharedrepo"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// TestChecks: what cannot be a Git Source is refused before any request is sent, with
// the field that is wrong.
func TestChecks(t *testing.T) {
	w := newWorld(t)
	home := sharedrepo.NewController(sharedrepo.ControllerOptions{
		Runtime: "demo", Namespace: "slipway", Settings: func() *platformv1.GitSettings { return nil },
	})
	w.service = gitsource.New(gitsource.Options{SharedRepository: home, Rights: w.proxy})
	client := w.serve(t, permission.RoleAdmin)
	const repository = "https://git.example.com/team/apps.git"
	for name, one := range map[string]struct {
		given *runtimev1.GitSource
		words string
	}{
		"no name":            {&runtimev1.GitSource{RepoUrl: repository}, "name"},
		"name in capitals":   {&runtimev1.GitSource{Name: "Apps", RepoUrl: repository}, "lower-case"},
		"name as a path":     {&runtimev1.GitSource{Name: "../apps", RepoUrl: repository}, "lower-case"},
		"name with dots":     {&runtimev1.GitSource{Name: "a.b", RepoUrl: repository}, "lower-case"},
		"name of the parent": {&runtimev1.GitSource{Name: "demo-shared", RepoUrl: repository}, "taken by the runtime"},
		"name of the chart":  {&runtimev1.GitSource{Name: "chart", RepoUrl: repository}, "taken by the runtime"},
		"name of itself":     {&runtimev1.GitSource{Name: "demo", RepoUrl: repository}, "taken by the runtime"},
		"no repository":      {&runtimev1.GitSource{Name: "apps"}, "repository"},
		"a file":             {&runtimev1.GitSource{Name: "apps", RepoUrl: "file:///etc"}, "not supported"},
		"credentials":        {&runtimev1.GitSource{Name: "apps", RepoUrl: "https://ada:canary0@git.example.com/x.git"}, "credentials"},
		"a user":             {&runtimev1.GitSource{Name: "apps", RepoUrl: "https://canary0@git.example.com/x.git"}, "credentials"},
		"path outside":       {&runtimev1.GitSource{Name: "apps", RepoUrl: repository, Path: "a/../../b"}, "path"},
		"absolute path":      {&runtimev1.GitSource{Name: "apps", RepoUrl: repository, Path: "/etc"}, "path"},
		"revision":           {&runtimev1.GitSource{Name: "apps", RepoUrl: repository, Revision: "main~1"}, "revision"},
		"pattern":            {&runtimev1.GitSource{Name: "apps", RepoUrl: repository, Include: "{a"}, "include"},
		"namespace":          {&runtimev1.GitSource{Name: "apps", RepoUrl: repository, DestinationNamespace: "A"}, "namespace"},
		"server":             {&runtimev1.GitSource{Name: "apps", RepoUrl: repository, DestinationServer: "http://x"}, "https"},
		"project":            {&runtimev1.GitSource{Name: "apps", RepoUrl: repository, Project: "a b"}, "project"},
	} {
		_, err := client.CreateGitSource(t.Context(), create(one.given))
		if refused(t, err, connect.CodeInvalidArgument, one.words); t.Failed() {
			t.Fatalf("%s: %v", name, err)
		}
		_, err = client.EditGitSource(t.Context(), connect.NewRequest(&runtimev1.EditGitSourceRequest{GitSource: one.given}))
		refused(t, err, connect.CodeInvalidArgument, one.words)
	}
	_, err := client.CreateGitSource(t.Context(), create(&runtimev1.GitSource{Name: "apps", RepoUrl: repository}))
	refused(t, err, connect.CodeFailedPrecondition, "no Shared Configuration Repository")
	_, err = w.serve(t, permission.RoleOperator).CreateGitSource(t.Context(), create(&runtimev1.GitSource{Name: "apps", RepoUrl: repository}))
	refused(t, err, connect.CodePermissionDenied)
	_, err = w.service.ListGitSources(context.Background(), connect.NewRequest(&runtimev1.ListGitSourcesRequest{}))
	refused(t, err, connect.CodeUnauthenticated)
}
