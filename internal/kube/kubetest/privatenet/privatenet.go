// Package privatenet runs tests and benchmarks in a network namespace of their
// own, where every Pod address can be listened on and no packet can leave.
package privatenet

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// networkVariable identifies the private network of a process. Its value is
// networkToSetUp in the process that sets the network up, and the kernel's name
// of the namespace in the processes started from there. A value that was
// inherited by accident matches neither.
const (
	networkVariable = "SLIPWAY_KUBETEST_NETWORK"
	networkToSetUp  = "set-up"
)

// PodNetwork returns the range whose addresses are all local in the private
// network. Each cluster of a test process gets a /24 of it.
func PodNetwork() netip.Prefix { return netip.MustParsePrefix("10.244.0.0/16") }

// HostAddress returns the address of the host in the private network. It is
// from TEST-NET-1 (RFC 5737), because the API server rejects loopback addresses
// in EndpointSlices.
func HostAddress() netip.Addr { return netip.MustParseAddr("192.0.2.2") }

// Enter reports whether this process is in a private network, and sets
// the network up in the first process there.
func Enter() (bool, error) {
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
		// Children inherit the name and so join the network without setting it
		// up a second time.
		return true, os.Setenv(networkVariable, current)
	default:
		return false, nil
	}
}

// Inside reports whether Enter has found this process in a private network.
func Inside() bool {
	current, err := currentNetwork()
	return err == nil && os.Getenv(networkVariable) == current
}

// currentNetwork returns the kernel's name of the network namespace, such as
// net:[4026531840].
func currentNetwork() (string, error) {
	return os.Readlink("/proc/self/ns/net")
}

// setUpNetwork brings loopback up and makes the Pod range, the host address and
// a default route local to it. It needs CAP_NET_ADMIN in the namespace, which
// its creator has.
func setUpNetwork() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find interface lo: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("bring lo up: %w", err)
	}
	index := lo.Attrs().Index
	// A local route makes the whole range bindable without adding 65,536
	// addresses.
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
	// The API server derives its advertise address from the default route.
	all := &netlink.Route{LinkIndex: index, Dst: ipNet(netip.MustParsePrefix("0.0.0.0/0")), Scope: netlink.SCOPE_LINK}
	if err := netlink.RouteAdd(all); err != nil {
		return fmt.Errorf("add a default route on lo: %w", err)
	}
	return refuseNameServers(index)
}

// refuseNameServers makes the name servers of the machine local addresses, on
// which no process listens: a lookup fails at once. Otherwise each lookup that
// /etc/hosts does not answer takes the ten seconds of the resolver's timeouts.
// IPv6 has no route here and needs nothing.
func refuseNameServers(lo int) error {
	text, err := os.ReadFile("/etc/resolv.conf")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, server := range nameServers(string(text)) {
		if !server.Is4() || server.IsLoopback() {
			continue
		}
		route := &netlink.Route{
			LinkIndex: lo, Dst: ipNet(netip.PrefixFrom(server, server.BitLen())),
			Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL, Scope: netlink.SCOPE_HOST,
		}
		// The same server may be listed twice.
		if err := netlink.RouteReplace(route); err != nil {
			return fmt.Errorf("make the name server %s local: %w", server, err)
		}
	}
	return nil
}

// nameServers returns the addresses of the name servers in a resolv.conf.
func nameServers(conf string) []netip.Addr {
	var servers []netip.Addr
	for line := range strings.Lines(conf) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		if server, err := netip.ParseAddr(fields[1]); err == nil {
			servers = append(servers, server)
		}
	}
	return servers
}

// ipNet converts a prefix to the type that netlink takes.
func ipNet(prefix netip.Prefix) *net.IPNet {
	return &net.IPNet{
		IP:   prefix.Addr().AsSlice(),
		Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen()),
	}
}

// Run runs this program again in a new network namespace, with the same
// arguments, and returns the exit code. It forwards signals. Complaints start
// with a name.
func Run(name string, warnings io.Writer) int {
	// Pdeathsig fires when the thread that started the child ends, not the
	// process, so this thread has to live until the end.
	runtime.LockOSThread()
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2)

	child, err := startInNetwork()
	if err != nil {
		fmt.Fprintf(warnings, "%s: start in a private network: %v\n%s\n", name, err, explainRefusal(os.DirFS("/proc/sys")))
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
			return exitCode(name, warnings, child.ProcessState, err)
		}
	}
}

// startInNetwork starts the child in a new network namespace. This needs
// CAP_SYS_ADMIN, which an ordinary user gets as root of a new user namespace.
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

// startChild starts this program again with the attributes. /proc/self/exe
// works even if the test binary has been deleted, and Args[0] keeps the
// original name for messages.
func startChild(attributes *syscall.SysProcAttr) (*exec.Cmd, error) {
	attributes.Pdeathsig = unix.SIGKILL
	// In its own process group the child does not receive Ctrl-C from the
	// terminal; the waiting parent forwards the signal once.
	attributes.Setpgid = true
	child := exec.Command("/proc/self/exe", os.Args[1:]...)
	child.Args[0] = os.Args[0]
	child.Env = append(os.Environ(), networkVariable+"="+networkToSetUp)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	child.SysProcAttr = attributes
	return child, child.Start()
}

// exitCode returns the exit code of the child, or 128 plus the signal that
// ended it, as a shell does.
func exitCode(name string, warnings io.Writer, state *os.ProcessState, err error) int {
	if state == nil {
		fmt.Fprintf(warnings, "%s: wait for the process: %v\n", name, err)
		return 1
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		fmt.Fprintf(warnings, "%s: the process was ended by signal: %v\n", name, status.Signal())
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}
