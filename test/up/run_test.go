// Package up drives `slipway up` from outside: the built binaries, real
// signals, a real cluster, in a private network.
package up

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/up"
	"slipway.dev/slipway/test/binary"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

const (
	startDeadline = 3 * time.Minute
	stopDeadline  = time.Minute
	checkInterval = 50 * time.Millisecond
)

// slipway is one run of the built binary.
type slipway struct {
	command        *exec.Cmd
	stdout, stderr *transcript
	exited         chan struct{}
}

// start runs `slipway up` with the arguments and returns at once.
func start(t *testing.T, arguments ...string) *slipway {
	t.Helper()
	s := &slipway{
		command: exec.Command(os.Getenv(binary.Variable), append([]string{"up"}, arguments...)...),
		stdout:  newTranscript(), stderr: newTranscript(),
		exited: make(chan struct{}),
	}
	s.command.Stdout, s.command.Stderr = s.stdout, s.stderr
	// A process that it left behind must not keep Wait waiting.
	s.command.WaitDelay = 5 * time.Second
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.exited)
		_ = s.command.Wait()
	}()
	t.Cleanup(func() {
		_ = s.command.Process.Kill()
		<-s.exited
		if t.Failed() {
			t.Logf("slipway up %s\nstdout:\n%s\nstderr:\n%s", strings.Join(arguments, " "), s.stdout, s.stderr)
		}
	})
	return s
}

// startJSON runs it for scripts and returns the facts that it prints.
func startJSON(t *testing.T, arguments ...string) (*slipway, up.Facts) {
	t.Helper()
	s := start(t, append(arguments, "--output", "json")...)
	s.await(t, s.stdout, "\n")
	var facts up.Facts
	if err := json.Unmarshal([]byte(s.stdout.String()), &facts); err != nil {
		t.Fatalf("stdout is not one JSON object: %v\n%s", err, s.stdout)
	}
	return s, facts
}

// await returns when the text was printed.
func (s *slipway) await(t *testing.T, output *transcript, text string) {
	t.Helper()
	deadline := time.After(startDeadline)
	for {
		now, changed := output.snapshot()
		if strings.Contains(now, text) {
			return
		}
		select {
		case <-changed:
		case <-s.exited:
			t.Fatalf("it ended before it said %q:\n%s\n%s", text, s.stdout, s.stderr)
		case <-deadline:
			t.Fatalf("it never said %q:\n%s\n%s", text, s.stdout, s.stderr)
		}
	}
}

func (s *slipway) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := s.command.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// signalUntilExit presses the key again and again, as people do.
func (s *slipway) signalUntilExit(t *testing.T, signal syscall.Signal) {
	t.Helper()
	deadline := time.After(stopDeadline)
	press := time.NewTicker(100 * time.Millisecond)
	defer press.Stop()
	for {
		// It fails only when the process has ended.
		_ = s.command.Process.Signal(signal)
		select {
		case <-s.exited:
			return
		case <-press.C:
		case <-deadline:
			t.Fatalf("it did not end within %s:\n%s\n%s", stopDeadline, s.stdout, s.stderr)
		}
	}
}

// wait returns the exit code; -1 is the end by a signal.
func (s *slipway) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-s.exited:
		return s.command.ProcessState.ExitCode()
	case <-time.After(stopDeadline):
		t.Fatalf("it did not end within %s:\n%s\n%s", stopDeadline, s.stdout, s.stderr)
		return 0
	}
}

// fails runs `slipway up`, which must exit with the code, and returns what it
// says.
func fails(t *testing.T, code int, arguments ...string) string {
	t.Helper()
	s := start(t, arguments...)
	if got := s.wait(t); got != code {
		t.Errorf("exit code %d, want %d", got, code)
	}
	return s.stderr.String()
}

// requireNothingRuns waits until no process of the cluster is left in this
// private network, which belongs to this test process alone.
func requireNothingRuns(t *testing.T) {
	t.Helper()
	deadline := time.After(stopDeadline)
	check := time.NewTicker(checkInterval)
	defer check.Stop()
	for {
		left := clusterProcesses(t)
		if len(left) == 0 {
			return
		}
		select {
		case <-check.C:
		case <-deadline:
			t.Fatalf("still running: %s", strings.Join(left, ", "))
		}
	}
}

// clusterProcesses lists the processes of slipway and slipway-devcluster, the
// Pods' among them, that are in our network.
func clusterProcesses(t *testing.T) []string {
	t.Helper()
	network, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, process := range processes {
		if theirs, err := os.Readlink(process + "/ns/net"); err != nil || theirs != network {
			continue
		}
		executable, err := os.Readlink(process + "/exe")
		if name := filepath.Base(executable); err == nil && strings.HasPrefix(name, "slipway") {
			arguments, _ := os.ReadFile(process + "/cmdline")
			found = append(found, fmt.Sprintf("%s: %s", filepath.Base(process), strings.ReplaceAll(string(arguments), "\x00", " ")))
		}
	}
	return found
}

func connect(t *testing.T, kubeconfig string) *kube.Cluster {
	t.Helper()
	cluster, err := kube.Connect(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster
}

// shell runs a printed command as a user would paste it, with the cluster's
// own kubectl as kubectl.
func shell(t *testing.T, command string) string {
	t.Helper()
	tools := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' kubectl \"$@\"\n", kubetest.Binary(t))
	if err := os.WriteFile(filepath.Join(tools, "kubectl"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), "sh", "-c", command)
	run.Env = append(userEnvironment(), "PATH="+tools+":"+os.Getenv("PATH"))
	output, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, output)
	}
	return string(output)
}

// userEnvironment is ours without the variables that tests have and users have
// not: the program takes them for options.
func userEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "SLIPWAY_") })
}

// hint is the printed command of that title.
func hint(t *testing.T, facts up.Facts, title string) string {
	t.Helper()
	for _, one := range facts.Try {
		if one.Title == title {
			return one.Command
		}
	}
	t.Fatalf("there is no hint %q in %+v", title, facts.Try)
	return ""
}

// row is the row of a part.
func row(t *testing.T, facts up.Facts, part string) up.Row {
	t.Helper()
	for _, one := range facts.Parts {
		if one.Part == part {
			return one
		}
	}
	t.Fatalf("there is no part %q in %+v", part, facts.Parts)
	return up.Row{}
}

// transcript keeps what a process prints and tells of changes.
type transcript struct {
	mu      sync.Mutex
	text    strings.Builder
	changed chan struct{}
}

func newTranscript() *transcript { return &transcript{changed: make(chan struct{})} }

// Write takes everything, so that the process never blocks on a full pipe.
func (r *transcript) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text.Write(p)
	close(r.changed)
	r.changed = make(chan struct{})
	return len(p), nil
}

func (r *transcript) snapshot() (string, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String(), r.changed
}

func (r *transcript) String() string {
	text, _ := r.snapshot()
	return text
}
