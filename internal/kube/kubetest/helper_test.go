package kubetest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// Tests of Main start this test binary again. The variables give that process
// its part and its argument.
const (
	helperVariable   = "KUBETEST_HELPER"
	argumentVariable = "KUBETEST_HELPER_ARGUMENT"
	networkVariable  = "SLIPWAY_KUBETEST_NETWORK"
)

// helper is one part to play. Its process runs only TestHelperProcess.
type helper struct {
	name     string
	argument string
	flags    []string
	// sameNetwork leaves the process in this test's network.
	sameNetwork bool
}

func (h helper) command(ctx context.Context) *exec.Cmd {
	flags := h.flags
	if flags == nil {
		flags = []string{"-test.run=^TestHelperProcess$"}
	}
	cmd := exec.CommandContext(ctx, os.Args[0], flags...)
	cmd.Env = append(os.Environ(), helperVariable+"="+h.name, argumentVariable+"="+h.argument)
	if !h.sameNetwork {
		cmd.Env = slices.DeleteFunc(cmd.Env, func(variable string) bool {
			return strings.HasPrefix(variable, networkVariable+"=")
		})
	}
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// run waits for the helper and returns its exit code and output.
func (h helper) run(t *testing.T) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := h.command(ctx)
	return runCommand(t, cmd)
}

func runCommand(t *testing.T, cmd *exec.Cmd) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("run %v: %v", cmd.Args, err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// TestHelperProcess is not a test: it is the process that the others start.
func TestHelperProcess(t *testing.T) {
	argument := os.Getenv(argumentVariable)
	switch name := os.Getenv(helperVariable); name {
	case "":
		t.Skip("started by other tests only")
	case "dial":
		helperDial(t, argument)
	case "listen":
		helperListen(t, argument)
	case "exit":
		fmt.Fprintln(os.Stdout, "to stdout")
		fmt.Fprintln(os.Stderr, "to stderr")
		os.Exit(7)
	case "block":
		fmt.Fprintln(os.Stdout, "running", os.Getpid())
		select {}
	case "signal":
		helperSignal()
	case "cluster":
		cluster := kubetest.Start(t, kubetest.WithoutNode(), kubetest.InDir(argument))
		fmt.Fprintln(os.Stdout, "running", cluster.PID())
		select {}
	case "leak":
		go func() { select {} }()
	case "refused":
		helperRefused(t)
	case "stdin":
		var line string
		_, err := fmt.Scanln(&line)
		fmt.Fprintln(os.Stdout, "read", line, err)
	default:
		t.Fatalf("no helper %q", name)
	}
}

func helperDial(t *testing.T, address string) {
	conn := must.Get(net.DialTimeout("tcp", address, 5*time.Second))(t)
	conn.Close()
}

func helperListen(t *testing.T, address string) {
	listener := must.Get(net.Listen("tcp", address))(t)
	listener.Close()
}

func helperSignal() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	fmt.Fprintln(os.Stdout, "running", os.Getpid())
	fmt.Fprintln(os.Stdout, "received", <-signals)
	signal.Stop(signals)
}

// helperRefused runs in a user namespace of its own. It forbids network
// namespaces there and runs this binary once more.
func helperRefused(t *testing.T) {
	must.Do(t, os.WriteFile("/proc/sys/user/max_net_namespaces", []byte("0"), 0))
	code, _, stderr := helper{name: "exit"}.run(t)
	fmt.Fprint(os.Stderr, stderr)
	os.Exit(code)
}

// userNamespace starts a process as the given user of a new user namespace.
func userNamespace(user int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: user, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: user, HostID: os.Getegid(), Size: 1}},
	}
}

func pid(cmd *exec.Cmd) string { return strconv.Itoa(cmd.Process.Pid) }
