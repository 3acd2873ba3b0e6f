package ground

import (
	"errors"
	"fmt"
	"io"
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

// networkVariable marks the re-executed process, which runs inside the private
// network namespace.
const networkVariable = "SLIPWAY_BENCH_NETWORK"

// PodNetwork is the pod CIDR. A local route covers all of it in the private
// network, so any of its addresses can be listened on without being added to an
// interface.
func PodNetwork() netip.Prefix { return netip.MustParsePrefix("10.244.0.0/16") }

// HostAddress is the address that the API server detects as its own.
func HostAddress() netip.Addr { return netip.MustParseAddr("192.0.2.2") }

// EnterNetwork reports whether this process runs in the private network
// namespace, and sets that network up if so. It removes the marker from the
// environment, so that children do not inherit it.
func EnterNetwork() (bool, error) {
	if os.Getenv(networkVariable) == "" {
		return false, nil
	}
	if err := os.Unsetenv(networkVariable); err != nil {
		return false, err
	}
	if err := setUpNetwork(); err != nil {
		return false, fmt.Errorf("set up the private network: %w", err)
	}
	return true, nil
}

// setUpNetwork brings up lo with the routes and the address that the API server
// and the backends need. It refuses a namespace that has other interfaces or
// whose lo is up, so that a marker set by hand cannot change the routes of the
// host.
func setUpNetwork() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find interface lo: %w", err)
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return err
	}
	if len(interfaces) != 1 || lo.Attrs().Flags&net.FlagUp != 0 {
		return fmt.Errorf("this network is in use: %s must not be set by hand", networkVariable)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("bring lo up: %w", err)
	}
	pods := &netlink.Route{
		LinkIndex: lo.Attrs().Index, Dst: ipNet(PodNetwork()),
		Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL, Scope: netlink.SCOPE_HOST,
	}
	if err := netlink.RouteAdd(pods); err != nil {
		return fmt.Errorf("make %s local: %w", PodNetwork(), err)
	}
	host := netip.PrefixFrom(HostAddress(), HostAddress().BitLen())
	if err := netlink.AddrAdd(lo, &netlink.Addr{IPNet: ipNet(host)}); err != nil {
		return fmt.Errorf("add address %s to lo: %w", host, err)
	}
	// The API server takes the source address of the default route as its own
	// address.
	all := &netlink.Route{LinkIndex: lo.Attrs().Index, Dst: ipNet(netip.MustParsePrefix("0.0.0.0/0")), Scope: netlink.SCOPE_LINK}
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

// RunInNetwork re-executes this program with the same arguments in a new
// network namespace, forwards SIGINT and SIGTERM to it, and returns its exit
// code.
func RunInNetwork(program string, complain io.Writer) int {
	// Pdeathsig applies to the thread that starts the child: the kernel kills
	// the child when that thread ends, even if the process lives on.
	runtime.LockOSThread()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	child, err := startInNetwork()
	if err != nil {
		fmt.Fprintln(complain, program+": a private network needs root, or user namespaces that the kernel permits:", err)
		return ExitFailure
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	for {
		select {
		case received := <-signals:
			_ = child.Process.Signal(received) // it fails only when the child has ended
		case <-ended:
			if code := child.ProcessState.ExitCode(); code >= 0 {
				return code
			}
			fmt.Fprintln(complain, program+":", child.ProcessState)
			return ExitFailure
		}
	}
}

// startInNetwork starts the child in a new network namespace. That requires
// CAP_NET_ADMIN; without it, the child becomes root of a new user namespace,
// which owns the network namespace.
func startInNetwork() (*exec.Cmd, error) {
	if os.Geteuid() == 0 {
		child, err := startAgain(&syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET})
		// Root of a container may lack the capability; then the user namespace
		// is the fallback.
		if !errors.Is(err, unix.EPERM) {
			return child, err
		}
	}
	return startAgain(&syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	})
}

// startAgain re-executes this program. /proc/self/exe is the binary that runs,
// even if its file has been replaced since.
func startAgain(attributes *syscall.SysProcAttr) (*exec.Cmd, error) {
	attributes.Pdeathsig = unix.SIGKILL
	// In its own process group the child does not receive Ctrl-C from the
	// terminal; the waiting parent forwards the signal once.
	attributes.Setpgid = true
	child := exec.Command("/proc/self/exe", os.Args[1:]...)
	child.Args[0] = os.Args[0]
	child.Env = append(os.Environ(), networkVariable+"=1")
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	child.SysProcAttr = attributes
	return child, child.Start()
}
