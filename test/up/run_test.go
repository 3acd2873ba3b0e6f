// Package up drives `slipway up` from outside: the built binaries, real
// signals, a real cluster, in a private network.
package up

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/up"
	"slipway.dev/slipway/test/binary"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

const stopDeadline = time.Minute

// slipway is one run of the built binary.
type slipway struct{ *programs.Process }

// start runs `slipway up` with the arguments and returns at once.
func start(t *testing.T, arguments ...string) *slipway {
	t.Helper()
	command := exec.Command(os.Getenv(binary.Variable), append([]string{"up"}, arguments...)...)
	return &slipway{programs.Run(t, "slipway up "+strings.Join(arguments, " "), command)}
}

// startJSON runs it for scripts and returns the facts that it prints.
func startJSON(t *testing.T, arguments ...string) (*slipway, up.Facts) {
	t.Helper()
	s := start(t, append(arguments, "--output", "json")...)
	s.AwaitOutput(t, s.Out, "\n")
	var facts up.Facts
	if err := json.Unmarshal([]byte(s.Out.String()), &facts); err != nil {
		t.Fatalf("stdout is not one JSON object: %v\n%s", err, s.Out)
	}
	return s, facts
}

func (s *slipway) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	must.Do(t, s.Signal(signal))
}

// signalUntilExit presses the key again and again, as people do.
func (s *slipway) signalUntilExit(t *testing.T, signal syscall.Signal) {
	t.Helper()
	deadline := time.After(stopDeadline)
	press := time.NewTicker(100 * time.Millisecond)
	defer press.Stop()
	for {
		// It fails only when the process has ended.
		_ = s.Signal(signal)
		select {
		case <-s.Exited():
			return
		case <-press.C:
		case <-deadline:
			t.Fatalf("it did not end within %s:\n%s\n%s", stopDeadline, s.Out, s.Log)
		}
	}
}

// requireExit waits for the end and compares the exit code; -1 is the end by a
// signal.
func (s *slipway) requireExit(t *testing.T, want int) {
	t.Helper()
	if code := s.Wait(t).ExitCode(); code != want {
		t.Errorf("exit code %d, want %d", code, want)
	}
}

// fails runs `slipway up`, which must exit with the code, and returns what it
// prints.
func fails(t *testing.T, code int, arguments ...string) string {
	t.Helper()
	s := start(t, arguments...)
	s.requireExit(t, code)
	return s.Log.String()
}

// requireNothingRuns waits until no process of the cluster is left in this
// private network, which belongs to this test process alone.
func requireNothingRuns(t *testing.T) {
	t.Helper()
	programs.Eventually(t, func(context.Context) error {
		if left := clusterProcesses(t); len(left) > 0 {
			return fmt.Errorf("still running: %s", strings.Join(left, ", "))
		}
		return nil
	})
}

// clusterProcesses lists the processes of slipway and slipway-devcluster, the
// Pods' among them, that are in our network.
func clusterProcesses(t *testing.T) []string {
	t.Helper()
	network := must.Get(os.Readlink("/proc/self/ns/net"))(t)
	processes := must.Get(filepath.Glob("/proc/[0-9]*"))(t)
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
	cluster := must.Get(kube.Connect(kubeconfig))(t)
	t.Cleanup(cluster.Close)
	return cluster
}

// shell runs a printed command as a user would paste it, with the cluster's
// own kubectl as kubectl.
func shell(t *testing.T, command string) string {
	t.Helper()
	tools := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' kubectl \"$@\"\n", kubetest.Binary(t))
	must.Do(t, os.WriteFile(filepath.Join(tools, "kubectl"), []byte(script), 0o755))
	run := exec.CommandContext(t.Context(), "sh", "-c", command)
	run.Env = append(programs.UserEnvironment(), "PATH="+tools+":"+os.Getenv("PATH"))
	output, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, output)
	}
	return string(output)
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
