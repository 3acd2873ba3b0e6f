package appcmd_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"slipway.dev/slipway/internal/access/router"
	"slipway.dev/slipway/internal/access/token"
	"slipway.dev/slipway/internal/agent/appproxy"
	"slipway.dev/slipway/internal/cli"
	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire"
)

// apiKey is the key of the tests' platform.
const apiKey = "slw_test_0123456789"

// remoteWorld is a runtime's API behind what forwards to it, as a platform does:
// the key of who asks becomes a token for this runtime.
type remoteWorld struct {
	*clitest.AppWorld
	platform string
}

func newRemoteWorld(t *testing.T) *remoteWorld {
	t.Helper()
	w := &remoteWorld{AppWorld: clitest.NewAppWorld(t)}
	sources, err := source.New(source.Options{Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	renderer, err := render.New(render.Options{Workers: 1, Command: []string{os.Args[0], "render-worker"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = renderer.Close()
		_ = sources.Close()
	})
	service := appproxy.New(appproxy.Options{Cluster: w.Cluster.Cluster, ControlNamespace: w.TestNamespace, Sources: sources, Renderer: renderer})
	mux := http.NewServeMux()
	for path, handler := range service.Handlers() {
		mux.Handle(path, handler)
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: public}}})
	if err != nil {
		t.Fatal(err)
	}
	verifier := token.NewVerifier(func() string { return "rt-1" }, func() string { return string(set) }, nil)
	runtime := router.New(router.Options{Runtime: "prod", AppProxy: mux, Verify: verifier.Verify})
	server := httptest.NewServer(http.StripPrefix("/runtimes/prod", forwarded(t, runtime, private)))
	t.Cleanup(server.Close)
	w.platform = server.URL
	return w
}

// forwarded exchanges the key for a token.
func forwarded(t *testing.T, runtime http.Handler, key ed25519.PrivateKey) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer "+apiKey {
			r.Header.Set("Authorization", "Bearer "+requestToken(t, key))
		}
		runtime.ServeHTTP(w, r)
	})
}

func requestToken(t *testing.T, key ed25519.PrivateKey) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: key}, (&jose.SignerOptions{}).WithType(wire.RequestTokenType))
	if err != nil {
		t.Error(err)
		return ""
	}
	now := time.Now()
	payload, err := json.Marshal(wire.RuntimeClaims{
		RuntimeID: "rt-1", Email: "ada@example.com", Role: "operator", Prefix: wire.AppProxyPath, IssuedAt: now.Unix(), ExpiresAt: now.Add(time.Minute).Unix(), ID: rand.Text(),
	})
	if err != nil {
		t.Error(err)
		return ""
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Error(err)
		return ""
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Error(err)
	}
	return text
}

// app runs `slipway app` through the platform.
func (w *remoteWorld) app(t *testing.T, line string) clitest.Result {
	t.Helper()
	return w.appContext(t, t.Context(), line)
}

func (w *remoteWorld) appContext(t *testing.T, ctx context.Context, line string) clitest.Result {
	t.Helper()
	args := append([]string{"app"}, strings.Fields(line)...)
	args = append(args, "--platform-url", w.platform, "--runtime", "prod")
	var stdout, stderr bytes.Buffer
	code := cli.Execute(ctx, args, &stdout, &stderr)
	return clitest.Result{Code: code, Stdout: stdout.String(), Stderr: stderr.String()}
}

// TestAppThroughPlatform: the same commands through a platform: what they print is
// what they print with a kubeconfig, and who asked is recorded.
func TestAppThroughPlatform(t *testing.T) {
	w := newRemoteWorld(t)
	repository := gittest.Serve(t).Repository(t, "shop", map[string]string{
		"deploy/one.yaml": clitest.ConfigMap("one", "1"), "deploy/key.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: key}\nstringData: {password: canary-4711}\n",
	})
	w.StartAgent(t)
	w.ManualApp(t, repository, "")
	t.Setenv("SLIPWAY_API_KEY", apiKey) // an agent knows no such option
	if got := w.app(t, "diff shop"); got.Code != 1 || !strings.Contains(got.Stdout, "+++ git/ConfigMap "+w.TestNamespace+"/one\n") || strings.Contains(got.Stdout, "canary") {
		t.Errorf("diff: %+v", got)
	}
	if got := w.app(t, "sync shop --timeout 60s"); got.Code != 0 || !strings.Contains(got.Stdout, "is synced to") || !w.Has(t, "one") {
		t.Fatalf("sync: %+v", got)
	}
	if got := w.app(t, "wait shop --sync --timeout 60s"); got.Code != 0 || !strings.Contains(got.Stdout, "/shop is Synced") {
		t.Errorf("wait: %+v", got)
	}
	if got := w.app(t, "diff shop"); got.Code != 0 || got.Stdout != "" {
		t.Errorf("a diff without differences: %+v", got)
	}
	repository.Commit(t, map[string]string{"deploy/one.yaml": clitest.ConfigMap("one", "2")}, "two")
	if got := w.app(t, "sync shop --resource :ConfigMap:one --timeout 60s"); got.Code != 0 {
		t.Errorf("sync of one object: %+v", got)
	}
	for _, line := range []string{"get shop", "get shop -o yaml", "tree shop", "tree shop -o json", "history shop", "list", "list -o name"} {
		through, direct := w.app(t, line), w.AppWorld.App(t, strings.Replace(line, "list", "list -A", 1)+" --namespace "+w.TestNamespace)
		if strings.HasPrefix(line, "list") {
			direct.Stdout = onlyOf(direct.Stdout, w.TestNamespace)
		}
		if through.Code != 0 || clitest.TrimLines(through.Stdout) != clitest.TrimLines(direct.Stdout) {
			t.Errorf("%s: through the platform\n%s%s\ndirectly\n%s%s", line, through.Stdout, through.Stderr, direct.Stdout, direct.Stderr)
		}
	}
	if got := w.app(t, "history shop"); strings.Count(got.Stdout, "ada@example.com") == 0 {
		t.Errorf("the history does not say who asked: %+v", got)
	}
	if got := w.app(t, "rollback shop 0 --revert --timeout 60s"); got.Code != 0 || !strings.Contains(got.Stdout, "is synced to") || !strings.Contains(got.Stdout, "Committed "+repository.Head(t)[:7]) {
		t.Errorf("rollback: %+v", got)
	}
	if got := repository.Git(t, "log", "-1", "--format=%an"); strings.TrimSpace(got) != "ada@example.com" {
		t.Errorf("the author is %s", got)
	}
}

// TestAppActionThroughPlatform: actions of objects are listed and run, and a
// cluster alone has none.
func TestAppActionThroughPlatform(t *testing.T) {
	w := newRemoteWorld(t)
	w.StartAgent(t)
	repository := gittest.Serve(t).Repository(t, "shop", map[string]string{"deploy/web.yaml": strings.Replace(webDeployment, "replicas: 2", "replicas: 0", 1)})
	w.ManualApp(t, repository, "")
	t.Setenv("SLIPWAY_API_KEY", apiKey) // an agent knows no such option
	if got := w.app(t, "sync shop --timeout 60s"); got.Code != 0 {
		t.Fatalf("sync: %+v", got)
	}
	got := w.app(t, "action list shop --resource apps:Deployment:web")
	if got.Code != 0 || !regexp.MustCompile(`web +restart +- +available\n`).MatchString(got.Stdout) || !regexp.MustCompile(`web +resume +- +disabled\n`).MatchString(got.Stdout) ||
		!regexp.MustCompile(`web +scale +replicas +available\n`).MatchString(got.Stdout) {
		t.Errorf("list: %+v", got)
	}
	if got := w.app(t, "action run shop pause --resource apps:Deployment:web"); got.Code != 0 || !strings.HasPrefix(got.Stdout, "pause: ") {
		t.Errorf("pause: %+v", got)
	}
	if got := w.app(t, "action list shop --resource apps:Deployment:web"); !regexp.MustCompile(`web +resume +- +available\n`).MatchString(got.Stdout) {
		t.Errorf("the Deployment is not paused: %+v", got)
	}
	for line, want := range map[string]string{
		"action run shop explode --resource apps:Deployment:web": "has no action \"explode\"",
		"action run shop pause --resource apps:Deployment:api":   "--resource takes none of the Application's objects",
		"action run shop pause":                                  "choose objects with --resource",
	} {
		if got := w.app(t, line); got.Code == 0 || !strings.Contains(got.Stderr, want) {
			t.Errorf("%s: %+v", line, got)
		}
	}
	if got := w.AppWorld.App(t, "action run shop pause --resource apps:Deployment:web"); got.Code != 2 || !strings.Contains(got.Stderr, "actions are run by a runtime") {
		t.Errorf("directly: %+v", got)
	}
}

// onlyOf are the lines of a list that are of a namespace, and the title.
func onlyOf(text, namespace string) string {
	var lines []string
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, namespace) || strings.HasPrefix(line, "NAMESPACE") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// TestAppLogsThroughPlatform: logs, and their end by Ctrl-C.
func TestAppLogsThroughPlatform(t *testing.T) {
	w := newRemoteWorld(t)
	w.StartAgent(t)
	repository := gittest.Serve(t).Repository(t, "shop", map[string]string{"deploy/web.yaml": webDeployment})
	w.ManualApp(t, repository, "")
	t.Setenv("SLIPWAY_API_KEY", apiKey) // an agent knows no such option
	if got := w.app(t, "sync shop --timeout 60s"); got.Code != 0 {
		t.Fatalf("sync: %+v", got)
	}
	w.WaitForRollout(t, w.TestNamespace, "web", 2*time.Minute)
	var out programs.Output
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan int, 1)
	go func() {
		args := []string{"app", "logs", "shop", "--follow", "--tail", "-1", "--platform-url", w.platform, "--runtime", "prod"}
		done <- cli.Execute(ctx, args, &out, &out)
	}()
	out.WaitFor(t, "/web] ")
	stop()
	if code := <-done; code != 0 {
		t.Errorf("it ended with %d: %s", code, out.String())
	}
	got := w.app(t, "logs shop --tail 1 --resource apps:Deployment:web -c web")
	if !regexp.MustCompile(`^\[web-[a-z0-9-]+/web\] `).MatchString(got.Stdout) || got.Code != 0 {
		t.Errorf("the last lines: %+v", got)
	}
}

// TestAppThroughPlatformRefusals: errors name what to do, and
// never the key.
func TestAppThroughPlatformRefusals(t *testing.T) {
	w := newRemoteWorld(t)
	w.ApplyManifests(t, shopApp)
	for _, c := range []struct {
		line, key, want string
		code            int
	}{
		{"get nothing", apiKey, "there is no Application nothing in the namespace " + w.TestNamespace, 1},
		{"get elsewhere/shop", apiKey, "there is no Application shop", 1},
		{"get shop", "wrong-key", "the platform does not accept the key: check the key in SLIPWAY_API_KEY", 1},
		{"get shop", "", "there is no key for the platform", 2},
		{"diff shop --local .", apiKey, "--local needs the cluster", 2},
		{"logs shop --tail 0", apiKey, "use --since 1s", 2},
		{"rollback shop 7", apiKey, "has no past sync 7", 1},
		{"wait shop --health --timeout 1s", apiKey, "is not there after 1s", 1},
		{"terminate shop", apiKey, "there is nothing to end", 1},
		{"get shop --kubeconfig x", apiKey, "cannot be combined", 2},
	} {
		t.Setenv("SLIPWAY_API_KEY", c.key)
		got := w.app(t, c.line)
		if got.Code != c.code || !strings.Contains(got.Stderr, c.want) {
			t.Errorf("%s: got %+v, wanted %d and %q", c.line, got, c.code, c.want)
		}
		if c.key != "" && strings.Contains(got.Stdout+got.Stderr, c.key) {
			t.Errorf("%s: the key is shown: %+v", c.line, got)
		}
	}
	t.Setenv("SLIPWAY_API_KEY", apiKey)
	for flags, want := range map[string]string{
		"--platform-url http://platform.example --runtime prod": "use https",
		"--platform-url nonsense --runtime prod":                "write one such as https://",
		"--platform-url http://127.0.0.1:1 --runtime Prod":      "must have lower-case letters",
		"--platform-url http://127.0.0.1:1 --runtime prod":      "the platform at http://127.0.0.1:1 does not respond",
	} {
		got := clitest.Run(t, fmt.Sprintf("app get shop %s", flags))
		if got.Code == 0 || !strings.Contains(got.Stderr, want) {
			t.Errorf("%s: got %+v", flags, got)
		}
	}
}
