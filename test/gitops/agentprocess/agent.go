package agentprocess

import (
	"os/exec"
	"testing"
	"time"

	"slipway.dev/slipway/internal/programs"
)

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
	// Environment has additional variables of its environment.
	Environment []string
	// TraceFile is the file for a trace of every program that the agent or a
	// worker executes or tries to execute; see [Executions]. Empty disables it.
	TraceFile string
}

// Agent is a running `slipway agent`.
type Agent struct{ *programs.Process }

// Start starts an agent and kills it at the end of the test. It does not wait
// for readiness; use AwaitLog or the status of an object.
func Start(t *testing.T, options Options) *Agent {
	t.Helper()
	line := append([]string{
		options.Binary, "agent", "--log.format=json", "--outbound.allow=127.0.0.1,::1",
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
	command := exec.Command(line[0], line[1:]...)
	// Nothing else is inherited, so the developer's Git and Kubernetes settings
	// do not change a test.
	command.Env = programs.Environment(t, append([]string{"KUBECONFIG=" + options.Kubeconfig, "POD_NAMESPACE=" + options.Namespace}, options.Environment...)...)
	return &Agent{programs.Run(t, "the agent", command)}
}
