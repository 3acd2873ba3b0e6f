package runtime

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire/platformv1"
)

const teamEmail = "team@example.com"

// command runs slipway as the user of an API key, with the runtime east.
func (g *stage) command(ctx context.Context, key string, words ...string) (string, error) {
	command := exec.CommandContext(ctx, g.binary, words...)
	command.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + g.t.TempDir(), "SSL_CERT_FILE=" + g.authority.CertFile,
		"SLIPWAY_URL=" + g.url, "SLIPWAY_API_KEY=" + key, "SLIPWAY_RUNTIME=east",
	}
	out, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("slipway %s: %w: %s", strings.Join(words, " "), err, out)
	}
	return string(out), nil
}

// testTeam: a restricted user with rights on a project, and on nothing else,
// makes a Git Source of the project with the command line: the runtime writes for
// the user, and after the user has registered a token that one does. The project
// limits what the user can make.
func (g *stage) testTeam(t *testing.T) {
	repository := g.git.url("team/shop")
	g.git.git.Repository(t, "team/shop", map[string]string{"x.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: of-the-team}\n"})
	g.east.cluster.Apply(t, g.east.namespace, fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: shop}
spec:
  sourceRepos: [%q]
  destinations: [{server: "*", namespace: %s}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-rbac-cm}
data:
  policy.csv: p, %s, applications, *, shop/*, allow
`, repository, g.east.target, teamEmail))
	made := mustMessage(g.admin.accounts.CreateUser(t.Context(), connect.NewRequest(&platformv1.CreateUserRequest{
		Email: teamEmail, Name: "Team", Role: platformv1.Role_ROLE_RESTRICTED,
	})))(t)
	key := g.firstKey(t, teamEmail, made.GetOneTimePassword(), g.canary("the password of the team", "canary0password0of0the0team"))
	create := func(ctx context.Context, name, url string) (commit string, err error) {
		out, err := g.command(ctx, key, "git-source", "create", name, "--repo-url", url, "--project", "shop", "--dest-namespace", g.east.target, "-o", "json")
		if err != nil {
			return "", err
		}
		var response struct{ Commit string }
		return response.Commit, json.Unmarshal([]byte(out), &response)
	}
	// The platform gets the policy with a heartbeat.
	var commit string
	programs.Eventually(t, func(ctx context.Context) (err error) {
		commit, err = create(ctx, "shop-one", repository)
		return err
	})
	g.git.written(t, commit, teamEmail, "east@runtime.slipway.invalid", g.git.runtimeToken)
	token := filepath.Join(t.TempDir(), "token")
	writeFile(t, token, g.git.userToken)
	must.Get(g.command(t.Context(), key, "integration", "git", "register", "--token-file", token))(t)
	g.git.written(t, must.Get(create(t.Context(), "shop-two", repository))(t), teamEmail, teamEmail, g.git.userToken)
	if _, err := create(t.Context(), "shop-three", g.git.url("team/apps")); err == nil || !strings.Contains(err.Error(), "sourceRepos") {
		t.Errorf("a repository that the project does not have: %v", err)
	}
	if _, err := g.command(t.Context(), key, "git-source", "delete", "apps", "--yes"); err == nil || !strings.Contains(err.Error(), "there is no Git Source apps") {
		t.Errorf("a Git Source of another project: %v", err)
	}
	if list, err := g.command(t.Context(), key, "git-source", "list"); err != nil || !strings.Contains(list, "shop-two") || strings.Contains(list, "apps.git") {
		t.Errorf("the list is %s: %v", list, err)
	}
	g.testTeamArgo(t, key)
	for _, name := range []string{"shop-one", "shop-two"} {
		must.Get(g.command(t.Context(), key, "git-source", "delete", name, "--yes"))(t)
	}
}

// testTeamArgo: the same rights count for clients of Argo CD. Applications and
// projects of others do not exist.
func (g *stage) testTeamArgo(t *testing.T, key string) {
	t.Helper()
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/api/v1/applications/apps", "", http.StatusNotFound},
		{"GET", "/api/v1/applications/apps?refresh=normal", "", http.StatusNotFound},
		{"POST", "/api/v1/applications/apps/sync", "{}", http.StatusNotFound},
		{"DELETE", "/api/v1/applications/apps", "", http.StatusNotFound},
		{"GET", "/api/v1/applications/apps/managed-resources", "", http.StatusNotFound},
		{"GET", "/api/v1/applications/apps/logs", "", http.StatusForbidden},
		{"GET", "/api/v1/projects/default", "", http.StatusNotFound},
	} {
		if status, text := g.argoREST(t, key, c.method, c.path, c.body); status != c.status {
			t.Errorf("%s %s: %d %s", c.method, c.path, status, text)
		}
	}
	for path, hidden := range map[string]string{
		"/api/v1/applications": `"name":"apps"`, "/api/v1/projects": `"default"`, "/api/v1/clusters": inCluster, "/api/v1/repositories": `"repo"`,
	} {
		if status, text := g.argoREST(t, key, "GET", path, ""); status != http.StatusOK || strings.Contains(text, hidden) {
			t.Errorf("GET %s: %d %s", path, status, text)
		}
	}
	if _, text := g.argoREST(t, key, "GET", "/api/v1/applications", ""); !strings.Contains(text, `"name":"shop-`) {
		t.Errorf("the own Applications are missing: %s", text)
	}
}
