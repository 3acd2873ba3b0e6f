package node

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// podNetwork connects Pods that have a network namespace each: a bridge has the
// first usable address of the Pod network, and a veth pair leads from it to
// every Pod. So programs can listen on all addresses and on any port without
// a conflict between Pods.
type podNetwork struct {
	prefix netip.Prefix
	bridge netlink.Link
	home   *os.File // the namespace of the node
	thread thread
}

// newPodNetwork creates the bridge. It needs CAP_NET_ADMIN and CAP_SYS_ADMIN,
// which root has, and every user in a user namespace of their own.
func newPodNetwork(prefix netip.Prefix) (*podNetwork, error) {
	home, err := os.Open("/proc/self/ns/net")
	if err != nil {
		return nil, err
	}
	gateway := prefix.Addr().Next()
	attributes := netlink.NewLinkAttrs()
	attributes.Name = linkName("b", gateway)
	// Without an address of its own a bridge takes the lowest of its ports, and
	// Pods would keep the old one in their neighbour tables.
	attributes.HardwareAddr = hardwareAddress(gateway)
	n := &podNetwork{prefix: prefix, bridge: &netlink.Bridge{LinkAttrs: attributes}, home: home, thread: startThread()}
	if err := n.addBridge(gateway); err != nil {
		n.close()
		return nil, fmt.Errorf("create the bridge of the Pod network, which needs root or a user namespace: %w", err)
	}
	return n, nil
}

// addBridge adds the bridge and its address. A bridge of that name is left over
// from a node that was killed.
func (n *podNetwork) addBridge(gateway netip.Addr) error {
	if err := removeLink(n.bridge.Attrs().Name); err != nil {
		return err
	}
	if err := netlink.LinkAdd(n.bridge); err != nil {
		return err
	}
	return setUp(n.bridge.Attrs().Name, netip.PrefixFrom(gateway, n.prefix.Bits()))
}

// close removes the bridge. No Pod may be attached.
func (n *podNetwork) close() {
	_ = removeLink(n.bridge.Attrs().Name) // the next node with this network removes it otherwise
	close(n.thread)
	n.home.Close()
}

// podNamespace is the network namespace of one Pod. The file keeps it alive
// while no process is in it.
type podNamespace struct {
	network *podNetwork
	file    *os.File
	link    string // the node's end of the veth pair
}

// attach creates the namespace of a Pod and connects it. On error nothing is
// left of it.
func (n *podNetwork) attach(addr netip.Addr) (_ *podNamespace, err error) {
	ns := &podNamespace{network: n, link: linkName("p", addr)}
	err = n.thread.do(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		defer n.goHome()
		ns.file, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("create a network namespace for %s: %w", addr, err)
	}
	if err := ns.connect(addr); err != nil {
		ns.close()
		return nil, fmt.Errorf("connect the network namespace of %s: %w", addr, err)
	}
	return ns, nil
}

// connect adds the veth pair, with the Pod's address on its end.
func (ns *podNamespace) connect(addr netip.Addr) error {
	if err := removeLink(ns.link); err != nil {
		return err
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.MasterIndex = ns.link, ns.network.bridge.Attrs().Index
	pair := &netlink.Veth{
		LinkAttrs: attributes, PeerName: "eth0", PeerNamespace: netlink.NsFd(ns.file.Fd()),
		// A later Pod with this address has the same hardware address, so that
		// neighbour tables stay valid.
		PeerHardwareAddr: hardwareAddress(addr),
	}
	if err := netlink.LinkAdd(pair); err != nil {
		return err
	}
	if err := setUp(ns.link, netip.Prefix{}); err != nil {
		return err
	}
	return ns.do(func() error {
		err := errors.Join(setUp("lo", netip.Prefix{}), setUp("eth0", netip.PrefixFrom(addr, ns.network.prefix.Bits())))
		if err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{Gw: ns.network.prefix.Addr().Next().AsSlice()})
	})
}

// do runs a function in the namespace. A process that it starts is in the
// namespace too, and with Pdeathsig ends with the node.
func (ns *podNamespace) do(f func() error) error {
	return ns.network.thread.do(func() error {
		if err := unix.Setns(int(ns.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter the network namespace of the Pod: %w", err)
		}
		defer ns.network.goHome()
		return f()
	})
}

// close releases the namespace, in which no process may run. The link is
// removed here, because the kernel removes it with the namespace only later,
// when the address may belong to another Pod.
func (ns *podNamespace) close() {
	_ = removeLink(ns.link) // attach removes it otherwise
	ns.file.Close()
}

// goHome returns the thread to the namespace of the node. The kernel has no
// reason to refuse the namespace that the thread came from, and a thread that
// cannot return must not go on.
func (n *podNetwork) goHome() {
	if err := unix.Setns(int(n.home.Fd()), unix.CLONE_NEWNET); err != nil {
		panic(fmt.Sprintf("return to the network namespace of the node: %v", err))
	}
}

// setUp brings a link of the current namespace up, with an address if that is
// valid.
func setUp(name string, address netip.Prefix) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find interface %s: %w", name, err)
	}
	if address.IsValid() {
		at := &net.IPNet{IP: address.Addr().AsSlice(), Mask: net.CIDRMask(address.Bits(), address.Addr().BitLen())}
		if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: at}); err != nil {
			return fmt.Errorf("add address %s to %s: %w", address, name, err)
		}
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("bring %s up: %w", name, err)
	}
	return nil
}

// removeLink deletes a link, if it exists.
func removeLink(name string) error {
	link, err := netlink.LinkByName(name)
	if missing := (netlink.LinkNotFoundError{}); errors.As(err, &missing) {
		return nil
	}
	if err != nil {
		return err
	}
	return netlink.LinkDel(link)
}

// linkName returns a name that is unique among the links of all Pod networks of
// a machine, and short enough for the kernel.
func linkName(kind string, addr netip.Addr) string {
	return fmt.Sprintf("sw%s%x", kind, addr.As4())
}

// hardwareAddress derives a locally administered address from an IP address.
func hardwareAddress(addr netip.Addr) net.HardwareAddr {
	ip := addr.As4()
	return net.HardwareAddr{0x02, 0x53, ip[0], ip[1], ip[2], ip[3]}
}

// thread runs functions on one operating system thread, one after the other.
// Namespaces belong to threads, and Pdeathsig is sent when the thread ends that
// has started a process, so both need a thread that nothing else uses.
// Closing the channel ends it.
type thread chan func()

// startThread starts a thread.
func startThread() thread {
	t := make(thread)
	go func() {
		// It is never unlocked: the thread ends with the goroutine.
		runtime.LockOSThread()
		for f := range t {
			f()
		}
	}()
	return t
}

// do runs a function on the thread and returns its error.
func (t thread) do(f func() error) error {
	done := make(chan error, 1)
	t <- func() { done <- f() }
	return <-done
}
