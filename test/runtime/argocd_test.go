package runtime

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire/argocd"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// argoPath is Argo CD's API of the runtime east.
const argoPath = "/runtimes/east/app-proxy/argocd"

// testArgoCD: clients of Argo CD read and operate an Application through the
// platform, by gRPC-Web as the argocd command and by REST as tools that poll, with
// keys of the platform and the rights of their users. What is not served is
// Unimplemented. With ARGOCD the command itself does the same.
func (g *stage) testArgoCD(t *testing.T) {
	first := g.argoApplication(t)
	t.Run("gRPC-Web", func(t *testing.T) { g.testArgoRPC(t, first) })
	t.Run("REST", g.testArgoREST)
	t.Run("stream", g.testArgoStream)
	t.Run("keys", g.testArgoKeys)
	t.Run("command", g.testArgoCommand)
	t.Run("delete", g.testArgoDelete)
}

// argoManifest is an Application that is synced by requests only.
func (g *stage) argoManifest() string {
	return strings.Replace(applicationManifest("cli", g.git.folder("cli"), inCluster, g.east.target), "  syncPolicy: {automated: {prune: true, selfHeal: true}}\n", "", 1)
}

// argoApplication makes the Application and returns its first commit.
func (g *stage) argoApplication(t *testing.T) string {
	t.Helper()
	commit := g.git.apps.Commit(t, map[string]string{"cli/settings.yaml": strings.Replace(settings("one"), "settings", "cli", 1), "cli/web.yaml": strings.ReplaceAll(workload, "web", "cli")}, "for clients")
	g.east.cluster.Apply(t, g.east.namespace, g.argoManifest())
	return commit
}

// argoCall calls a procedure as the argocd command does: gRPC-Web, with the token
// in a header of its own, and errors in the headers only.
func (g *stage) argoCall(ctx context.Context, key, name string, fields map[string]any) ([]*dynamicpb.Message, error) {
	all := argocd.Procedures()
	at := slices.IndexFunc(all, func(one *argocd.Procedure) bool { return one.Name == name })
	if at < 0 {
		return nil, fmt.Errorf("%s is not in the table", name)
	}
	document, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	message, err := all[at].FromREST(nil, nil, document)
	if err != nil {
		return nil, err
	}
	content, err := proto.Marshal(message)
	if err != nil {
		return nil, err
	}
	frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(content)))
	body, err := g.argoPost(ctx, key, name, append(frame, content...))
	if err != nil {
		return nil, err
	}
	var messages []*dynamicpb.Message
	for {
		var head [5]byte
		if _, err := io.ReadFull(body, head[:]); err != nil {
			return nil, err
		}
		if head[0] == 128 {
			return messages, nil
		}
		if head[0] != 0 {
			return nil, errors.New("the message is compressed, which the argocd command does not read")
		}
		content := make([]byte, binary.BigEndian.Uint32(head[1:]))
		if _, err := io.ReadFull(body, content); err != nil {
			return nil, err
		}
		message := all[at].NewResponse()
		if err := proto.Unmarshal(content, message); err != nil {
			return nil, err
		}
		messages = append(messages, message)
	}
}

// argoPost sends a request of gRPC-Web and returns the body of its response.
func (g *stage) argoPost(ctx context.Context, key, name string, frame []byte) (io.Reader, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+argoPath+name, bytes.NewReader(frame))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/grpc-web+proto")
	request.Header.Set("Token", key)
	request.Header.Set("Grpc-Accept-Encoding", "gzip")
	response, err := g.answers.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	status := response.Header.Get("Grpc-Status")
	if response.StatusCode != http.StatusOK || status != "" && status != "0" {
		return nil, fmt.Errorf("%s: status %q: %s", response.Status, status, response.Header.Get("Grpc-Message"))
	}
	return bytes.NewReader(content), nil
}

// testArgoRPC is what the argocd command calls for app get, diff, sync, wait,
// history, rollback, logs, proj and repo.
func (g *stage) testArgoRPC(t *testing.T, first string) {
	const apps = "/application.ApplicationService/"
	call := func(name string, fields map[string]any) string {
		t.Helper()
		var texts []string
		for _, message := range must.Get(g.argoCall(t.Context(), g.adminKey, name, fields))(t) {
			texts = append(texts, strings.ReplaceAll(protojson.Format(message), "\":  ", "\": "))
		}
		return strings.Join(texts, "\n")
	}
	contains := func(what, text string, wanted ...string) {
		t.Helper()
		for _, one := range wanted {
			if !strings.Contains(text, one) {
				t.Errorf("%s has no %s: %s", what, one, text)
			}
		}
	}
	until := func(name string, fields map[string]any, wanted ...string) {
		t.Helper()
		programs.Eventually(t, func(ctx context.Context) error {
			found, err := g.argoCall(ctx, g.adminKey, name, fields)
			if err != nil {
				return err
			}
			text := strings.ReplaceAll(protojson.Format(found[len(found)-1]), "\":  ", "\": ")
			for _, one := range wanted {
				if !strings.Contains(text, one) {
					return fmt.Errorf("there is no %s in %s", one, text)
				}
			}
			return nil
		})
	}
	cli := map[string]any{"name": "cli"}
	until(apps+"Get", map[string]any{"name": "cli", "refresh": "normal"}, `"OutOfSync"`)
	contains("the version", call("/version.VersionService/Version", nil), argocd.Version)
	contains("the user", call("/session.SessionService/GetUserInfo", nil), adminEmail, `"loggedIn": true`)
	contains("the settings", call("/cluster.SettingsService/Get", nil), g.url, g.east.namespace)
	contains("the list", call(apps+"List", map[string]any{"projects": []string{"default"}}), `"cli"`, `"web"`)
	contains("the diff", call(apps+"ManagedResources", map[string]any{"applicationName": "cli"}), `"liveState": "null"`, `"ConfigMap"`, `\"value\":\"one\"`)
	contains("the Application after a refresh", call(apps+"Get", map[string]any{"name": "cli", "refresh": "hard"}), `"OutOfSync"`)

	sync := call(apps+"Sync", map[string]any{"name": "cli", "prune": true, "strategy": map[string]any{"hook": map[string]any{"force": false}}, "syncOptions": map[string]any{"items": []string{"CreateNamespace=false"}}})
	contains("the Application that is synced", sync, `"cli"`)
	until(apps+"Get", cli, `"Succeeded"`, `"Synced"`, first, `"`+adminEmail+`"`)
	second := g.git.apps.Commit(t, map[string]string{"cli/settings.yaml": strings.Replace(settings("two"), "settings", "cli", 1)}, "another value")
	contains("the manifests", call(apps+"GetManifests", map[string]any{"name": "cli", "revision": second}), second, `\"value\":\"two\"`)
	call(apps+"Sync", cli)
	until(apps+"Get", cli, `"Succeeded"`, second, `"id": "1"`)
	contains("the commit", call(apps+"RevisionMetadata", map[string]any{"name": "cli", "revision": second}), "another value")
	call(apps+"Rollback", map[string]any{"name": "cli", "id": 0})
	programs.Eventually(t, func(ctx context.Context) error {
		found, err := g.east.cluster.Client.CoreV1().ConfigMaps(g.east.target).Get(ctx, "cli", metav1.GetOptions{})
		if err == nil && found.Data["value"] != "one" {
			err = fmt.Errorf("the value is %v", found.Data)
		}
		return err
	})
	until(apps+"ResourceTree", map[string]any{"applicationName": "cli"}, `"Pod"`, `"ReplicaSet"`, `"parentRefs"`)
	until(apps+"PodLogs", map[string]any{"name": "cli", "kind": "Deployment", "tailLines": 5}, `"last": true`)
	contains("the log", call(apps+"PodLogs", map[string]any{"name": "cli", "container": "cli"}), `"podName": "cli-`, `"timeStampStr"`)
	contains("the project", call("/project.ProjectService/Get", map[string]any{"name": "default"}), `"default"`)
	contains("the projects", call("/project.ProjectService/List", nil), `"default"`)
	contains("the clusters", call("/cluster.ClusterService/List", nil), inCluster, `"Successful"`)
	call("/repository.RepositoryService/ListRepositories", nil)
	contains("the right", call("/account.AccountService/CanI", map[string]any{"resource": "applications", "action": "sync", "subresource": "default/cli"}), `"yes"`)
	if entries := mustMessage(g.admin.audit.ListEntries(t.Context(), connect.NewRequest(&platformv1.ListEntriesRequest{})))(t).GetEntries(); !slices.ContainsFunc(entries, func(one *platformv1.AuditEntry) bool {
		return one.GetAction() == "application.rollback" && one.GetApplication() == g.east.namespace+"/cli" && one.GetOutcome() == "ok"
	}) {
		t.Errorf("the rollback is not in the audit log: %v", entries)
	}
}

// argoREST sends a request of REST and returns its body.
func (g *stage) argoREST(t *testing.T, key, method, path, body string) (status int, text string) {
	t.Helper()
	response, err := g.ask(t, key, method, g.url+argoPath+path, body)
	must.Do(t, err)
	defer response.Body.Close()
	content := must.Get(io.ReadAll(response.Body))(t)
	return response.StatusCode, string(content)
}

// testArgoREST is what dashboards and chat bots request.
func (g *stage) testArgoREST(t *testing.T) {
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/api/version", "", 200, argocd.Version},
		{"GET", "/api/v1/session/userinfo", "", 200, `"username":"` + adminEmail + `"`},
		{"GET", "/api/v1/applications?projects=default&selector=", "", 200, `"name":"cli"`},
		{"GET", "/api/v1/applications?repo=https://elsewhere.example.com/x", "", 200, `"items":[]`},
		{"GET", "/api/v1/applications/cli", "", 200, `"history":[`},
		{"GET", "/api/v1/applications/cli?project=another", "", 404, "project another"},
		{"GET", "/api/v1/applications/absent", "", 404, `"code":5`},
		{"GET", "/api/v1/applications/cli/managed-resources", "", 200, `"liveState":`},
		{"GET", "/api/v1/applications/cli/resource-tree", "", 200, `"kind":"Deployment"`},
		{"GET", "/api/v1/applications/cli/resource?kind=ConfigMap&version=v1&resourceName=cli&namespace=" + g.east.target, "", 200, `\"value\"`},
		{"GET", "/api/v1/applications/cli/logs?tailLines=1", "", 200, `{"result":{"content":`},
		{"GET", "/api/v1/projects", "", 200, `"default"`},
		{"GET", "/api/v1/clusters", "", 200, inCluster},
		{"POST", "/api/v1/applications/cli/sync", `{"dryRun":true,"revision":"refs/heads/main"}`, 200, `"name":"cli"`},
		{"POST", "/api/v1/applications/cli/sync", `{"manifests":["x"]}`, 501, "push them to the repository"},
		{"POST", "/api/v1/applications/cli/sync", `{"dryRun":"perhaps"}`, 400, "no valid message"},
		{"POST", "/api/v1/session", `{"username":"x","password":"y"}`, 501, "--auth-token"},
		{"POST", "/api/v1/applications", `{}`, 501, "in Git or with kubectl"},
		{"GET", "/api/v1/applications/cli/links", "", 501, "does not serve"},
		{"GET", "/api/v1/applications/..%2fweb", "", 400, "not allowed"},
	} {
		if status, text := g.argoREST(t, g.adminKey, c.method, c.path, c.body); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s %s: %d %s", c.method, c.path, status, text)
		}
	}
	programs.Eventually(t, func(ctx context.Context) error {
		_, text := g.argoREST(t, g.adminKey, "GET", "/api/v1/applications/cli", "")
		if !strings.Contains(text, `"dryRun":true`) || !strings.Contains(text, `"phase":"Succeeded"`) {
			return errors.New(text)
		}
		return nil
	})
}

// testArgoStream: a stream has the Applications that there are, and changes.
func (g *stage) testArgoStream(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	request := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, g.url+argoPath+"/api/v1/stream/applications?name=cli", nil))(t)
	request.Header.Set("Accept", "text/event-stream")
	response := must.Get(programs.Bearer(g.adminKey, g.answers).RoundTrip(request))(t)
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	next := func(want string) {
		t.Helper()
		for {
			line := must.Get(lines.ReadString('\n'))(t)
			if strings.Contains(line, want) && strings.HasPrefix(line, `data: {"result":`) {
				return
			}
		}
	}
	next(`"type":"ADDED"`)
	g.east.cluster.Apply(t, g.east.namespace, strings.Replace(g.argoManifest(), "{name: cli}", "{name: cli, labels: {seen: by-stream}}", 1))
	next(`"by-stream"`)
}

// testArgoKeys: a key to read reads and refreshes nothing; other credentials are
// not taken, and errors are in the headers, where the argocd command looks.
func (g *stage) testArgoKeys(t *testing.T) {
	reading := g.scoped(t, "dashboard", platformv1.Scope_SCOPE_READ)
	const apps = "/application.ApplicationService/"
	must.Get(g.argoCall(t.Context(), reading, apps+"Get", map[string]any{"name": "cli"}))(t)
	for _, c := range []struct {
		key, name string
		fields    map[string]any
		want      string
	}{
		{reading, apps + "Get", map[string]any{"name": "cli", "refresh": "normal"}, `status "7"`},
		{reading, apps + "Sync", map[string]any{"name": "cli"}, `status "7"`},
		{"", apps + "List", nil, `status "16"`},
		{"slw_nothing", apps + "List", nil, `status "16"`},
		{g.adminKey, apps + "Get", map[string]any{"name": "absent"}, `status "5"`},
	} {
		if _, err := g.argoCall(t.Context(), c.key, c.name, c.fields); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: %v", c.name, c.fields, err)
		}
	}
	if _, err := g.argoPost(t.Context(), g.adminKey, apps+"UpdateSpec", []byte{0, 0, 0, 0, 0}); err == nil || !strings.Contains(err.Error(), `status "12"`) {
		t.Errorf("UpdateSpec: %v", err)
	}
	if status, text := g.argoREST(t, reading, "GET", "/api/v1/applications/cli?refresh=hard", ""); status != http.StatusForbidden {
		t.Errorf("a key to read refreshes: %d %s", status, text)
	}
}

// testArgoDelete deletes the Application with its objects, which the command may
// have done.
func (g *stage) testArgoDelete(t *testing.T) {
	if status, text := g.argoREST(t, g.adminKey, "DELETE", "/api/v1/applications/cli", ""); status != http.StatusOK && os.Getenv("ARGOCD") == "" {
		t.Errorf("%d %s", status, text)
	}
	programs.Eventually(t, func(ctx context.Context) error {
		_, err := g.east.cluster.Client.CoreV1().ConfigMaps(g.east.target).Get(ctx, "cli", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("its ConfigMap is there: %w", err)
		}
		return nil
	})
}

// testArgoCommand runs the argocd command of ARGOCD, which make argocd-cli builds.
func (g *stage) testArgoCommand(t *testing.T) {
	program := os.Getenv("ARGOCD")
	if program == "" {
		t.Skip("make argocd-cli runs the argocd command here")
	}
	home := t.TempDir()
	run := func(words ...string) (string, error) {
		command := exec.CommandContext(t.Context(), program, append(words,
			"--server="+strings.TrimPrefix(g.url, "https://"), "--grpc-web-root-path="+argoPath, "--auth-token="+g.adminKey,
			"--server-crt="+g.authority.CertFile, "--config="+filepath.Join(home, "config"))...)
		command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home}
		out, err := command.CombinedOutput()
		return string(out), err
	}
	for _, c := range []struct {
		line string
		code int
		want string
	}{
		{"version", 0, "argocd-server: " + argocd.Version},
		{"account get-user-info", 0, adminEmail},
		{"account can-i sync applications default/cli", 0, "yes"},
		{"app list", 0, "cli"},
		{"app list -p another -o name", 0, ""},
		{"app get cli", 0, "Sync Status:"},
		{"app get cli --hard-refresh -o yaml", 0, "repoURL:"},
		{"app get cli -o tree", 0, "Deployment"},
		{"app sync cli --prune --timeout 120", 0, "Succeeded"},
		{"app wait cli --timeout 120", 0, "Healthy"},
		{"app diff cli", 0, ""},
		{"app history cli", 0, "ID"},
		{"app rollback cli 0 --timeout 120", 0, "Succeeded"},
		{"app diff cli", 1, "two"},
		{"app manifests cli", 0, "kind: ConfigMap"},
		{"app logs cli --tail 3", 0, ""},
		{"app resources cli", 0, "Deployment"},
		{"app actions list cli --kind Deployment", 0, "restart"},
		{"app actions run cli restart --kind Deployment --resource-name cli", 0, ""},
		{"proj list", 0, "default"},
		{"proj get default", 0, "default"},
		{"repo list", 0, "REPO"},
		{"cluster list", 0, inCluster},
		{"app set cli --revision x", 20, "in Git or with kubectl"},
		{"app delete cli --yes", 0, "deleted"},
	} {
		out, err := run(strings.Fields(c.line)...)
		code := 0
		if failure, ok := errors.AsType[*exec.ExitError](err); ok {
			code = failure.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		if code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("argocd %s: exit code %d, want %d and %q: %s", c.line, code, c.code, c.want, out)
		}
	}
}
