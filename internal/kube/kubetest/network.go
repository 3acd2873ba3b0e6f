package kubetest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// networkVariable tells a process which private network it belongs to: either
// the word below, for the process that sets the network up, or the name that
// the kernel gives to the network, for the processes started from there. A
// value that was inherited by chance matches neither.
const (
	networkVariable = "SLIPWAY_KUBETEST_NETWORK"
	networkToSetUp  = "set-up"
)

// PodNetwork is local as a whole in the private network. Each cluster of a
// test process gets a /24 of it.
func PodNetwork() netip.Prefix { return netip.MustParsePrefix("10.244.0.0/16") }

// HostAddress is the address of the host in the private network. The API
// server refuses loopback addresses in EndpointSlices; this is not one.
func HostAddress() netip.Addr { return netip.MustParseAddr("192.0.2.2") }

// enterNetwork reports whether this process is in a private network, and sets
// the network up in the first process there.
func enterNetwork() (bool, error) {
	current, err := currentNetwork()
	if err != nil {
		return false, err
	}
	switch os.Getenv(networkVariable) {
	case current:
		return true, nil
	case networkToSetUp:
		if err := setUpNetwork(); err != nil {
			return false, fmt.Errorf("set up the private network: %w\n%s", err, explainRefusal(os.DirFS("/proc/sys")))
		}
		return true, os.Setenv(networkVariable, current)
	default:
		return false, nil
	}
}

// inPrivateNetwork reports whether Main has put this process there.
func inPrivateNetwork() bool {
	current, err := currentNetwork()
	return err == nil && os.Getenv(networkVariable) == current
}

func currentNetwork() (string, error) {
	return os.Readlink("/proc/self/ns/net")
}

func setUpNetwork() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find interface lo: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("bring lo up: %w", err)
	}
	index := lo.Attrs().Index
	pods := &netlink.Route{
		LinkIndex: index, Dst: ipNet(PodNetwork()),
		Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL, Scope: netlink.SCOPE_HOST,
	}
	if err := netlink.RouteAdd(pods); err != nil {
		return fmt.Errorf("make %s local: %w", PodNetwork(), err)
	}
	host := netip.PrefixFrom(HostAddress(), HostAddress().BitLen())
	if err := netlink.AddrAdd(lo, &netlink.Addr{IPNet: ipNet(host)}); err != nil {
		return fmt.Errorf("add address %s to lo: %w", host, err)
	}
	// The API server looks for its own address at the default route.
	all := &netlink.Route{LinkIndex: index, Dst: ipNet(netip.MustParsePrefix("0.0.0.0/0")), Scope: netlink.SCOPE_LINK}
	if err := netlink.RouteAdd(all); err != nil {
		return fmt.Errorf("add a default route on lo: %w", err)
	}
	return nil
}

func ipNet(prefix netip.Prefix) *net.IPNet {
	return &net.IPNet{
		IP:   prefix.Addr().AsSlice(),
		Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen()),
	}
}

// runInNetwork runs this program again, with the same arguments, in a new
// network, and returns the exit code.
func runInNetwork() int {
	// The kernel kills the child when the thread that started it ends, so this
	// thread must stay until the process ends.
	runtime.LockOSThread()
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2)

	child, err := startInNetwork()
	if err != nil {
		fmt.Fprintf(os.Stderr, "kubetest: start the tests in a private network: %v\n%s\n", err, explainRefusal(os.DirFS("/proc/sys")))
		return 1
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	for {
		select {
		case received := <-signals:
			// It fails only when the child has ended, which the other case sees.
			_ = child.Process.Signal(received)
		case err := <-ended:
			return exitCode(child.ProcessState, err)
		}
	}
}

// startInNetwork needs root for a network of its own, and gets it where it is
// missing by being root of a new user namespace.
func startInNetwork() (*exec.Cmd, error) {
	if os.Geteuid() == 0 {
		child, err := startChild(&syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET})
		// Root of a container may lack the capability.
		if !errors.Is(err, unix.EPERM) {
			return child, err
		}
	}
	return startChild(&syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	})
}

func startChild(attributes *syscall.SysProcAttr) (*exec.Cmd, error) {
	attributes.Pdeathsig = unix.SIGKILL
	child := exec.Command("/proc/self/exe", os.Args[1:]...)
	child.Args[0] = os.Args[0]
	child.Env = append(os.Environ(), networkVariable+"="+networkToSetUp)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	child.SysProcAttr = attributes
	return child, child.Start()
}

func exitCode(state *os.ProcessState, err error) int {
	if state == nil {
		fmt.Fprintf(os.Stderr, "kubetest: wait for the tests: %v\n", err)
		return 1
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		fmt.Fprintf(os.Stderr, "kubetest: the test process was ended by signal: %v\n", status.Signal())
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// exitWithoutHooks ends the first process. It ran no test, so it has no
// coverage to write and must not complain that it cannot.
func exitWithoutHooks(code int) {
	syscall.Exit(code)
}
