package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/gitops/gittest"
)

// agentProcess is a running `slipway agent`.
type agentProcess struct {
	command *exec.Cmd
	log     *lockedBuffer
}

// startAgent runs `slipway agent` for the namespace of a world as a process,
// until the test ends: then SIGTERM has to end it in good order.
func (w *appWorld) startAgent(t *testing.T) *agentProcess {
	t.Helper()
	command := exec.Command(os.Args[0],
		"agent", "--log.format=text", "--admin.address=127.0.0.1:0", "--health.address=127.0.0.1:0", "--webhooks.address=127.0.0.1:0",
		"--applications.controlNamespace="+w.namespace, "--applications.pollInterval=1h", "--leaderElection.leaseName="+w.namespace, "--render.workers=1",
	)
	command.Env = append(os.Environ(), programVariable+"=1", "KUBECONFIG="+w.Kubeconfig)
	log := &lockedBuffer{}
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	process := &agentProcess{command, log}
	t.Cleanup(func() { process.end(t) })
	return process
}

// end ends the process, unless it was killed.
func (p *agentProcess) end(t *testing.T) {
	t.Helper()
	if p.command.ProcessState != nil {
		return
	}
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	kill := time.AfterFunc(appPatience, func() { _ = p.command.Process.Kill() })
	defer kill.Stop()
	if err := p.command.Wait(); err != nil || !strings.Contains(p.log.String(), "agent has stopped") {
		t.Errorf("the agent did not end in good order: %v", err)
	}
	if t.Failed() {
		t.Logf("log of the agent:\n%s", p.log.String())
	}
}

// kill ends the process at once.
func (p *agentProcess) kill(t *testing.T) {
	t.Helper()
	if err := p.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.command.Wait() // it was killed
}

// lockedBuffer is written by a command and read by the test.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func (b *lockedBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.more != nil {
		close(b.more)
		b.more = nil
	}
	return b.text.Write(text)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// waitFor waits until a text was written.
func (b *lockedBuffer) waitFor(t *testing.T, want string) {
	t.Helper()
	late := time.After(appPatience)
	for {
		b.mu.Lock()
		if b.more == nil {
			b.more = make(chan struct{})
		}
		found, more := strings.Contains(b.text.String(), want), b.more
		b.mu.Unlock()
		if found {
			return
		}
		select {
		case <-more:
		case <-late:
			t.Fatalf("there is no %q in %q", want, b.String())
		}
	}
}

// manualApp is an Application that syncs when it is asked to.
func (w *appWorld) manualApp(t *testing.T, repository *gittest.Repository, more string) {
	t.Helper()
	w.apply(t, fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: shop}
spec:
  project: default
  source: {repoURL: %q, path: deploy, targetRevision: main}
  destination: {server: https://kubernetes.default.svc, namespace: NAMESPACE}
  %s
`, repository.URL(), more))
	w.await(t, "shop", func(app *unstructured.Unstructured) error {
		if state, _, _ := unstructured.NestedString(app.Object, "status", "sync", "status"); state != "OutOfSync" {
			return fmt.Errorf("it is %q, and not OutOfSync", state)
		}
		return nil
	})
}

const settingsV1 = `apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {colour: green}
---
apiVersion: v1
kind: Secret
metadata: {name: key}
stringData: {key: first-key}
`

// TestAppEndToEnd: an Application from its first diff to a rollback, by commands
// alone, with a real agent, a real API server and a real Git server.
func TestAppEndToEnd(t *testing.T) {
	w := newAppWorld(t)
	repository := gittest.Serve(t).Repository(t, "shop", map[string]string{"deploy/settings.yaml": settingsV1})
	first := repository.Head(t)
	w.startAgent(t)
	w.manualApp(t, repository, "")
	flags := " --control-namespace " + w.namespace

	got := w.app(t, "diff shop"+flags)
	if got.code != 1 || strings.Contains(got.stdout, "first-key") ||
		!strings.Contains(got.stdout, "+  colour: green") || !strings.Contains(got.stdout, "+  key: '[redacted]'") {
		t.Errorf("the first diff: %+v", got)
	}
	got = w.app(t, "sync shop --timeout 60s")
	if got.code != 0 || !strings.Contains(got.stdout, "is synced to "+first[:7]) || !strings.Contains(got.stdout, "ConfigMap "+w.namespace+"/settings") {
		t.Fatalf("the first sync: %+v", got)
	}
	if got := w.app(t, "wait shop --timeout 60s"); got.code != 0 || !strings.Contains(got.stdout, "is Synced, Healthy, at "+first[:7]) {
		t.Errorf("wait: %+v", got)
	}
	if got := w.app(t, "diff shop"+flags); got.code != 0 || got.stdout != "" {
		t.Errorf("a diff of what is synced: %+v", got)
	}

	second := repository.Commit(t, map[string]string{"deploy/settings.yaml": strings.ReplaceAll(strings.ReplaceAll(settingsV1, "green", "blue"), "first-key", "second-key")}, "blue")
	got = w.app(t, "diff shop"+flags)
	if got.code != 1 || !strings.Contains(got.stdout, "-  colour: green\n+  colour: blue\n") ||
		!strings.Contains(got.stdout, "-  key: '[redacted]'\n+  key: '[redacted] (another value)'\n") || !strings.Contains(got.stderr, "2 changed, 0 new, 0 no longer in Git") {
		t.Errorf("the second diff: %+v", got)
	}
	if got := w.app(t, "diff shop --revision "+first+flags); got.code != 0 {
		t.Errorf("a diff with the first revision: %+v", got)
	}
	if got := w.app(t, "sync shop --timeout 60s"); got.code != 0 || !strings.Contains(got.stdout, "is synced to "+second[:7]) {
		t.Fatalf("the second sync: %+v", got)
	}
	if got := w.app(t, "history shop -o json"); strings.Count(got.stdout, `"id"`) != 2 {
		t.Errorf("history: %+v", got)
	}
	if got := w.app(t, "rollback shop 0 --timeout 60s"); got.code != 0 || !strings.Contains(got.stdout, "is synced to "+first[:7]) {
		t.Errorf("rollback: %+v", got)
	}
	if got := w.app(t, "diff shop"+flags); got.code != 1 || !strings.Contains(got.stdout, "-  colour: green\n+  colour: blue\n") {
		t.Errorf("a diff after the rollback: %+v", got)
	}
}

// TestAgentTakesOver: when the agent that works is killed, the other one works
// within 20 seconds.
func TestAgentTakesOver(t *testing.T) {
	w := newAppWorld(t)
	repository := gittest.Serve(t).Repository(t, "shop", map[string]string{"deploy/settings.yaml": settingsV1})
	first := w.startAgent(t)
	first.log.waitFor(t, "this replica works")
	second := w.startAgent(t)
	second.log.waitFor(t, "this replica waits for the Lease")
	w.manualApp(t, repository, "")
	began := time.Now()
	first.kill(t)
	second.log.waitFor(t, "this replica works")
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %s to take over", took)
	}
	if got := w.app(t, "sync shop --timeout 60s"); got.code != 0 {
		t.Errorf("a sync by the second: %+v", got)
	}
}
