package agentprocess

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"slipway.dev/slipway/test/conformance/edgeprocess"
)

// Patience bounds every wait. Only a failing test waits that long.
const Patience = 90 * time.Second

// Interval is the poll interval of an agent for Git. It is short, because the
// tests send no webhooks, and without jitter, so that they can reason about it.
const Interval = time.Second

// Options configure an agent.
type Options struct {
	// Binary is the path of the built program.
	Binary string
	// Kubeconfig is the file with the connection to the cluster.
	Kubeconfig string
	// Namespace is the namespace of the agent and its control namespace.
	Namespace string
	// Arguments are additional options of `slipway agent`. They override the
	// defaults, because the last value of an option counts.
	Arguments []string
	// TraceFile is the file for a trace of every program that the agent or a
	// worker executes or tries to execute; see [Executions]. Empty disables it.
	TraceFile string
}

// Agent is a running `slipway agent`.
type Agent struct {
	command *exec.Cmd
	exited  chan struct{} // closed when it is gone and its log complete

	// mu guards the log and more, which is closed and replaced with every line.
	mu     sync.Mutex
	logged bytes.Buffer
	more   chan struct{} // closed when there is more in the log
}

// Start starts an agent and kills it at the end of the test. It does not wait
// for readiness; use AwaitLog or the status of an object.
func Start(t *testing.T, options Options) *Agent {
	t.Helper()
	line := append([]string{
		options.Binary, "agent", "--log.format=json",
		"--admin.address=127.0.0.1:0", "--health.address=127.0.0.1:0", "--webhooks.address=127.0.0.1:0",
		"--applications.controlNamespace=" + options.Namespace,
		"--applications.pollInterval=" + Interval.String(), "--applications.pollJitter=0s",
	}, options.Arguments...)
	if options.TraceFile != "" {
		// With -D strace runs as a grandchild, so the process started
		// here is the agent itself and can be signaled. Attempts that the
		// agent's own seccomp filter rejects are recorded too, which
		// --seccomp-bpf of strace would hide.
		line = append([]string{"strace", "-D", "-f", "-q", "-e", "trace=execve,execveat", "-e", "signal=none", "-o", options.TraceFile}, line...)
	}
	a := &Agent{command: exec.Command(line[0], line[1:]...), exited: make(chan struct{}), more: make(chan struct{})}
	// Nothing else is inherited, so the developer's Git and Kubernetes settings
	// do not change a test.
	a.command.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir(),
		"KUBECONFIG=" + options.Kubeconfig, "POD_NAMESPACE=" + options.Namespace,
	}
	edgeprocess.Tie(a.command)
	stderr, err := a.command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.command.Start(); err != nil {
		t.Fatalf("%v: make deps installs what is missing", err)
	}
	go a.readLog(stderr)
	t.Cleanup(func() {
		a.Kill()
		if t.Failed() {
			t.Logf("the log of agent %d:\n%s", a.PID(), tail(a.Log()))
		}
	})
	return a
}

// tail returns the end of a long text.
func tail(text string) string {
	const most = 32 << 10
	if len(text) <= most {
		return text
	}
	return "...\n" + text[len(text)-most:]
}

// readLog collects the log line by line and wakes AwaitLog. Wait comes after
// the end of the pipe, because it closes it.
func (a *Agent) readLog(stderr io.Reader) {
	defer close(a.exited)
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		a.mu.Lock()
		fmt.Fprintf(&a.logged, "%s\n", lines.Bytes())
		close(a.more)
		a.more = make(chan struct{})
		a.mu.Unlock()
	}
	_, _ = io.Copy(io.Discard, stderr) // a line that is too long must not block it
	_ = a.command.Wait()               // how it ended shows in the log
}

// PID returns the process ID of the agent.
func (a *Agent) PID() int { return a.command.Process.Pid }

// Exited returns a channel that is closed when the process is gone and its log
// is complete.
func (a *Agent) Exited() <-chan struct{} { return a.exited }

// Log returns the log of the agent so far.
func (a *Agent) Log() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.logged.String()
}

// Says reports whether the log contains a text.
func (a *Agent) Says(text string) bool { return strings.Contains(a.Log(), text) }

// AwaitLog waits until the log contains a text.
func (a *Agent) AwaitLog(t *testing.T, text string) {
	t.Helper()
	late := time.After(Patience)
	for {
		a.mu.Lock()
		// The channel is read before the log, so that a line between the two is
		// not missed.
		more := a.more
		a.mu.Unlock()
		if a.Says(text) {
			return
		}
		select {
		case <-more:
		case <-a.exited:
			// The text may be in the last lines before the exit.
			if !a.Says(text) {
				t.Fatalf("the agent ended without saying %q", text)
			}
		case <-late:
			t.Fatalf("the agent does not say %q", text)
		}
	}
}

// Kill sends SIGKILL and waits for the exit. It may be called more than once.
func (a *Agent) Kill() {
	_ = a.command.Process.Kill() // it fails when the process is gone
	<-a.exited
}

// Stop sends SIGTERM, as the kubelet does, and waits for the exit. An agent
// that takes longer than Patience or exits with an error fails the test.
func (a *Agent) Stop(t *testing.T) {
	t.Helper()
	if err := a.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-a.exited:
	case <-time.After(Patience):
		t.Fatal("the agent does not stop")
	}
	if state := a.command.ProcessState; !state.Success() {
		t.Errorf("the agent ended with %v", state)
	}
}
