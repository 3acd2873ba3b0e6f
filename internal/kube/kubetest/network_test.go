package kubetest_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

func TestNetworkIsLocal(t *testing.T) {
	for _, address := range []string{"10.244.7.8", "10.244.255.254", kubetest.HostAddress().String(), "127.0.0.1"} {
		t.Run(address, func(t *testing.T) {
			listener := listen(t, address)
			conn := must.Get(net.DialTimeout("tcp", listener.Addr().String(), 5*time.Second))(t)
			defer conn.Close()
			accepted := must.Get(listener.Accept())(t)
			defer accepted.Close()
			must.Get(io.WriteString(accepted, "hello\n"))(t)
			if line, err := bufio.NewReader(conn).ReadString('\n'); line != "hello\n" {
				t.Errorf("read %q, %v", line, err)
			}
		})
	}
}

// With no other interface there is no way out, whatever the routes are.
func TestNetworkHasNoWayOut(t *testing.T) {
	interfaces := must.Get(net.Interfaces())(t)
	if len(interfaces) != 1 || interfaces[0].Name != "lo" {
		t.Errorf("interfaces are %v, want lo only", interfaces)
	}
	// 198.51.100.0/24 is reserved for documents: no host may respond there.
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var dialer net.Dialer
	if conn, err := dialer.DialContext(ctx, "tcp", "198.51.100.1:80"); err == nil {
		conn.Close()
		t.Error("an outside address answered")
	}
}

// The name servers of the machine refuse at once: a lookup that waits for its
// timeout would delay each test that resolves a name by seconds.
func TestLookupDoesNotWait(t *testing.T) {
	_, err := net.DefaultResolver.LookupHost(t.Context(), "name.invalid")
	var failure *net.DNSError
	if !errors.As(err, &failure) || failure.IsTimeout {
		t.Errorf("lookup gave %v, want an error that is no timeout", err)
	}
}

func TestNetworksAreApart(t *testing.T) {
	listener := listen(t, "10.244.7.8")
	address := listener.Addr().String()
	tests := []struct {
		name        string
		helper      string
		sameNetwork bool
		ok          bool
	}{
		{"dial from the same network", "dial", true, true},
		{"dial from another network", "dial", false, false},
		{"listen in the same network", "listen", true, false},
		{"listen in another network", "listen", false, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			code, stdout, stderr := helper{name: test.helper, argument: address, sameNetwork: test.sameNetwork}.run(t)
			if (code == 0) != test.ok {
				t.Errorf("exit code %d, want success: %t\n%s%s", code, test.ok, stdout, stderr)
			}
		})
	}
}

// A user without privileges gets the network through a user namespace. The
// process below has such a user: 1000 to itself, the test's user to the files.
func TestNetworkWithoutRoot(t *testing.T) {
	cmd := helper{name: "listen", argument: "10.244.7.8:80"}.command(t.Context())
	cmd.SysProcAttr = userNamespace(1000)
	if code, stdout, stderr := runCommand(t, cmd); code != 0 {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}

func TestNetworkRefused(t *testing.T) {
	cmd := helper{name: "refused", sameNetwork: true}.command(t.Context())
	cmd.SysProcAttr = userNamespace(0)
	code, stdout, stderr := runCommand(t, cmd)
	if code != 1 || !strings.Contains(stderr, "sysctl -w user.max_net_namespaces=") {
		t.Errorf("exit code %d, want 1 and the sysctl to set\n%s%s", code, stdout, stderr)
	}
}

func TestExitCodeAndOutput(t *testing.T) {
	code, stdout, stderr := helper{name: "exit"}.run(t)
	if code != 7 || stdout != "to stdout\n" || stderr != "to stderr\n" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestStdinIsPassedOn(t *testing.T) {
	cmd := helper{name: "stdin"}.command(t.Context())
	cmd.Stdin = strings.NewReader("word\n")
	if _, stdout, stderr := runCommand(t, cmd); !strings.Contains(stdout, "read word <nil>") {
		t.Errorf("stdout %q, stderr %q", stdout, stderr)
	}
}

func TestTimeoutEndsTheRun(t *testing.T) {
	code, stdout, stderr := helper{
		name: "block", flags: []string{"-test.run=^TestHelperProcess$", "-test.timeout=200ms"},
	}.run(t)
	if code != 2 || !strings.Contains(stdout+stderr, "test timed out after 200ms") {
		t.Errorf("exit code %d, want 2 and a timeout\n%s%s", code, stdout, stderr)
	}
}

func TestLeakFailsTheRun(t *testing.T) {
	code, _, stderr := helper{name: "leak"}.run(t)
	if code != 1 || !strings.Contains(stderr, "goroutines are left after all tests") ||
		!strings.Contains(stderr, "TestHelperProcess") {
		t.Errorf("exit code %d, want 1 and the leaked goroutine\n%s", code, stderr)
	}
}

// Fuzz workers are started by a process in the network and stay there: see
// FuzzLabelFrom, which checks it.
func TestFuzzWorkersStay(t *testing.T) {
	code, stdout, stderr := helper{flags: []string{
		"-test.run=^$", "-test.fuzz=^FuzzLabelFrom$", "-test.fuzztime=20x", "-test.fuzzcachedir=" + t.TempDir(),
	}}.run(t)
	if code != 0 || !strings.Contains(stdout+stderr, "now fuzzing with") {
		t.Errorf("exit code %d, want it to fuzz\n%s%s", code, stdout, stderr)
	}
}

func TestSignalIsPassedOn(t *testing.T) {
	cmd, lines := startHelper(t, helper{name: "signal"})
	must.Do(t, cmd.Process.Signal(syscall.SIGTERM))
	if !lines.Scan() || lines.Text() != "received terminated" {
		t.Errorf("read %q, %v", lines.Text(), lines.Err())
	}
	for lines.Scan() {
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// The process in the network holds the pipe, so the pipe ends when it does.
func TestKilledParentTakesChildAlong(t *testing.T) {
	cmd, lines := startHelper(t, helper{name: "block"})
	if lines.Text() == "running "+pid(cmd) {
		t.Fatal("the tests run in the first process, not in a child of it")
	}
	must.Do(t, cmd.Process.Kill())
	if lines.Scan() {
		t.Errorf("read %q, want the end", lines.Text())
	}
	if err := lines.Err(); err != nil {
		t.Errorf("the child still runs: %v", err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the parent was not killed")
	}
}

// startHelper returns a running helper and its output after the first line.
// Reading fails when the helper is still there a minute later.
func startHelper(t *testing.T, part helper) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	reader, writer, err := os.Pipe()
	must.Do(t, err)
	t.Cleanup(func() { reader.Close() })
	must.Do(t, reader.SetReadDeadline(time.Now().Add(time.Minute)))
	cmd := part.command(t.Context())
	cmd.Stdout = writer
	err = cmd.Start()
	writer.Close()
	must.Do(t, err)
	lines := bufio.NewScanner(reader)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "running ") {
		t.Fatalf("read %q, %v", lines.Text(), lines.Err())
	}
	return cmd, lines
}

func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	listener := must.Get(net.Listen("tcp", netip.AddrPortFrom(netip.MustParseAddr(address), 0).String()))(t)
	t.Cleanup(func() { listener.Close() })
	return listener
}
