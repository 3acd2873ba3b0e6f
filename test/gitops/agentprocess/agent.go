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

// Patience bounds every wait. Only a test that fails waits so long.
const Patience = 90 * time.Second

// Interval is how often an agent asks Git.
const Interval = time.Second

// Options are what an agent is started with.
type Options struct {
	// Binary is what [Build] made.
	Binary string
	// Kubeconfig is how it reaches the cluster.
	Kubeconfig string
	// Namespace is where it is at home, and its control namespace.
	Namespace string
	// Arguments are further options of `slipway agent`. Later ones win.
	Arguments []string
	// TraceFile is where every program goes that the agent or a worker executes
	// or tries to; see [Executions]. Empty is no trace.
	TraceFile string
}

// Agent is a running `slipway agent`.
type Agent struct {
	command *exec.Cmd
	exited  chan struct{} // closed when it is gone and its log complete

	mu     sync.Mutex
	logged bytes.Buffer
	more   chan struct{} // closed when there is more in the log
}

// Start runs an agent until the end of the test. It may be far from ready.
func Start(t *testing.T, options Options) *Agent {
	t.Helper()
	line := append([]string{
		options.Binary, "agent", "--log.format=json",
		"--admin.address=127.0.0.1:0", "--health.address=127.0.0.1:0", "--webhooks.address=127.0.0.1:0",
		"--applications.controlNamespace=" + options.Namespace,
		"--applications.pollInterval=" + Interval.String(), "--applications.pollJitter=0s",
	}, options.Arguments...)
	if options.TraceFile != "" {
		// With -D it is strace that is the child's child: the process that is
		// started here is the agent. Attempts that the agent's own filter refuses
		// are seen too, which a filter of strace would not show.
		line = append([]string{"strace", "-D", "-f", "-q", "-e", "trace=execve,execveat", "-e", "signal=none", "-o", options.TraceFile}, line...)
	}
	a := &Agent{command: exec.Command(line[0], line[1:]...), exited: make(chan struct{}), more: make(chan struct{})}
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

// tail is the end of a long text.
func tail(text string) string {
	const most = 32 << 10
	if len(text) <= most {
		return text
	}
	return "...\n" + text[len(text)-most:]
}

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

// PID is the process id of the agent.
func (a *Agent) PID() int { return a.command.Process.Pid }

// Exited is closed when the process is gone.
func (a *Agent) Exited() <-chan struct{} { return a.exited }

// Log is what the agent has logged so far.
func (a *Agent) Log() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.logged.String()
}

// Says reports whether the log has a text.
func (a *Agent) Says(text string) bool { return strings.Contains(a.Log(), text) }

// AwaitLog waits until the log has a text.
func (a *Agent) AwaitLog(t *testing.T, text string) {
	t.Helper()
	late := time.After(Patience)
	for {
		a.mu.Lock()
		more := a.more
		a.mu.Unlock()
		if a.Says(text) {
			return
		}
		select {
		case <-more:
		case <-a.exited:
			if !a.Says(text) {
				t.Fatalf("the agent ended without saying %q", text)
			}
		case <-late:
			t.Fatalf("the agent does not say %q", text)
		}
	}
}

// Kill ends the process with SIGKILL. It may be called more than once.
func (a *Agent) Kill() {
	_ = a.command.Process.Kill() // it fails when the process is gone
	<-a.exited
}

// Stop ends the process as a cluster does, and waits until it has.
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
