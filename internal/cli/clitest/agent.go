package clitest

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

// AgentProcess is a running slipway agent. Log has its standard output and
// error, and may be read while it runs.
type AgentProcess struct {
	command *exec.Cmd
	Log     *LockedBuffer
}

// StartAgent runs `slipway agent` for the namespace of a world as a process of
// the test binary, until the test ends: then SIGTERM has to end it gracefully.
// Polling is off in effect, so that a sync happens only when a test requests
// it. The Lease is named after the namespace, because tests share the cluster.
func (w *AppWorld) StartAgent(t *testing.T) *AgentProcess {
	t.Helper()
	command := exec.Command(os.Args[0],
		"agent", "--log.format=text", "--admin.address=127.0.0.1:0", "--health.address=127.0.0.1:0", "--webhooks.address=127.0.0.1:0",
		"--applications.controlNamespace="+w.TestNamespace, "--applications.pollInterval=1h", "--leaderElection.leaseName="+w.TestNamespace, "--render.workers=1",
	)
	command.Env = append(os.Environ(), ProgramVariable+"=1", "KUBECONFIG="+w.Kubeconfig)
	log := &LockedBuffer{}
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	process := &AgentProcess{command, log}
	t.Cleanup(func() { process.end(t) })
	return process
}

// end stops the process with SIGTERM, unless Kill has ended it, and fails the
// test if it does not stop gracefully within AppPatience. The log is printed
// for a failed test only.
func (p *AgentProcess) end(t *testing.T) {
	t.Helper()
	if p.command.ProcessState != nil {
		return
	}
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	kill := time.AfterFunc(AppPatience, func() { _ = p.command.Process.Kill() })
	defer kill.Stop()
	if err := p.command.Wait(); err != nil || !strings.Contains(p.Log.String(), "agent has stopped") {
		t.Errorf("the agent did not end in good order: %v", err)
	}
	if t.Failed() {
		t.Logf("log of the agent:\n%s", p.Log.String())
	}
}

// Kill ends the process with SIGKILL, as a crash would: it releases no Lease
// and drains nothing.
func (p *AgentProcess) Kill(t *testing.T) {
	t.Helper()
	if err := p.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.command.Wait() // it was killed
}

// LockedBuffer is written by a command and read by the test at the same time.
// mu guards text and more.
type LockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
	// more is closed by the next Write; nil if no WaitFor waits.
	more chan struct{}
}

// Write appends text and wakes every WaitFor. It never fails.
func (b *LockedBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.more != nil {
		close(b.more)
		b.more = nil
	}
	return b.text.Write(text)
}

// String returns everything that was written so far.
func (b *LockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// WaitFor waits until a text was written, at any place, and fails the test
// after AppPatience. It waits for events and does not poll.
func (b *LockedBuffer) WaitFor(t *testing.T, want string) {
	t.Helper()
	late := time.After(AppPatience)
	for {
		b.mu.Lock()
		if b.more == nil {
			b.more = make(chan struct{})
		}
		// The channel is taken under the same lock as the text: a Write after
		// this closes it, so no wake-up is lost.
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

// ManualApp creates the Application shop without automated sync and waits until
// the agent has compared it with Git. more is appended to the spec.
func (w *AppWorld) ManualApp(t *testing.T, repository *gittest.Repository, more string) {
	t.Helper()
	w.ApplyManifests(t, fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: shop}
spec:
  project: default
  source: {repoURL: %q, path: deploy, targetRevision: main}
  destination: {server: https://kubernetes.default.svc, namespace: NAMESPACE}
  %s
`, repository.URL(), more))
	w.Await(t, "shop", func(app *unstructured.Unstructured) error {
		if state, _, _ := unstructured.NestedString(app.Object, "status", "sync", "status"); state != "OutOfSync" {
			return fmt.Errorf("it is %q, and not OutOfSync", state)
		}
		return nil
	})
}
