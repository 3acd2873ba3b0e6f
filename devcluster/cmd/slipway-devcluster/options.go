package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
)

// hostNetwork is the value of --pod-network that gives Pods the machine's own
// address.
const hostNetwork = "host"

// options are the flags of the command; addFlags documents each of them.
type options struct {
	dir           string
	port          uint16
	node          bool
	kubelet       bool
	podNetwork    string
	nodeAddress   string
	startTimeout  time.Duration
	stopWithStdin bool
	fsync         bool
	images        map[string]string
}

// defaultOptions returns the defaults that need no configuration: a process
// node, Pods on the machine's own address.
func defaultOptions() *options {
	return &options{node: true, podNetwork: hostNetwork, startTimeout: 2 * time.Minute, fsync: true}
}

// addFlags registers the flags. The current values are the defaults in the help
// text.
func (o *options) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.dir, "dir", o.dir, "directory for all state of the cluster; made when it does not exist (required)")
	f.Uint16Var(&o.port, "port", o.port, "port of the API server; 0 takes a free one and keeps it for later starts with the same directory")
	f.BoolVar(&o.node, "node", o.node, "run the process node; without it Pods stay Pending")
	f.BoolVar(&o.kubelet, "kubelet", o.kubelet, "leave the node to a kubelet and a kube-proxy beside: no process node, their kubeconfigs and certificate are written to the directory, and the API server listens on the node's address, where Pods reach it")
	f.StringVar(&o.podNetwork, "pod-network", o.podNetwork, `addresses of Pods: "host" gives them the machine's own address and a free port each; a range such as 10.244.0.0/24, all of it local to this machine, gives each Pod its own address`)
	f.StringVar(&o.nodeAddress, "node-address", o.nodeAddress, "address of the node, not loopback; found by itself when empty")
	f.DurationVar(&o.startTimeout, "start-timeout", o.startTimeout, "give up when the cluster is not ready after this time")
	f.BoolVar(&o.stopWithStdin, "stop-with-stdin", o.stopWithStdin, "stop when standard input is closed, so that the cluster cannot outlive the process that started it")
	f.StringToStringVar(&o.images, "image", o.images, "run an image as a program of this machine, linked statically, such as registry.example/echo=/usr/local/bin/echo; without a tag for all of its tags. The volumes of its Pods are files in a root directory of its own. Each Pod then has a network namespace: it needs root or a user namespace, and a --pod-network that is not local to this machine")
	f.BoolVar(&o.fsync, "fsync", o.fsync, "wait until the disk has each write; without it the state may not outlive a crash of the machine, and a busy disk does not delay the API server")
}

// programs returns the programs of --image by image, with absolute paths. A
// program that does not exist fails the start, not each Pod of its image.
func (o *options) programs() (map[string]string, error) {
	programs := map[string]string{}
	for image, program := range o.images {
		path, err := filepath.Abs(program)
		if err != nil {
			return nil, err
		}
		info, err := os.Stat(path)
		if err == nil && info.IsDir() {
			err = fmt.Errorf("%s is a directory", path)
		}
		if err != nil {
			return nil, fmt.Errorf("--image %s: %w", image, err)
		}
		programs[image] = path
	}
	if len(programs) > 0 && o.podNetwork == hostNetwork {
		return nil, errors.New("--image needs a --pod-network such as 10.245.0.0/24: Pods of a program have an address each")
	}
	return programs, nil
}

// processNode reports whether Pods run as local processes.
func (o *options) processNode() bool { return o.node && !o.kubelet }

// serverAddress returns the address of the API server. It is loopback, unless
// the Pods of a kubelet, which have network namespaces of their own, must reach
// it.
func (o *options) serverAddress(n network) netip.Addr {
	if o.kubelet {
		return n.node
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}

// network holds the addresses of the node and its Pods.
type network struct {
	node    netip.Addr
	podCIDR netip.Prefix // zero: Pods share the node's address
}

// network derives the addresses from the flags. With a Pod network the node
// takes its first usable address, which the address pool leaves out;
// --node-address overrides it. Otherwise the node uses an address of the
// machine.
func (o *options) network() (network, error) {
	var n network
	if o.podNetwork != hostNetwork {
		prefix, err := netip.ParsePrefix(o.podNetwork)
		if err != nil {
			return n, fmt.Errorf("--pod-network %q is neither %q nor an address range such as 10.244.0.0/24", o.podNetwork, hostNetwork)
		}
		n.podCIDR = prefix.Masked()
		n.node = n.podCIDR.Addr().Next()
	}
	if o.nodeAddress != "" {
		addr, err := netip.ParseAddr(o.nodeAddress)
		if err != nil {
			return n, fmt.Errorf("--node-address %q is not an IP address", o.nodeAddress)
		}
		n.node = addr
	}
	if !n.node.IsValid() {
		addr, err := machineAddress()
		if err != nil {
			return n, err
		}
		n.node = addr
	}
	if n.node.IsLoopback() || n.node.IsUnspecified() {
		return n, fmt.Errorf("the node's address %s cannot be used: Kubernetes refuses loopback addresses for Pods and nodes", n.node)
	}
	return n, nil
}

// machineAddress returns the first address of an interface that is up and not
// loopback, IPv4 before IPv6. An address on the loopback interface that is not
// itself loopback counts too, after the others of its family.
func machineAddress() (netip.Addr, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return netip.Addr{}, err
	}
	var best netip.Addr
	var bestRank int
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			return netip.Addr{}, err
		}
		for _, a := range addrs {
			// The comparison is strict: among equals the first interface wins,
			// so the result is stable across starts.
			if addr, rank := rankAddress(a, i.Flags&net.FlagLoopback != 0); rank > bestRank {
				best, bestRank = addr, rank
			}
		}
	}
	if bestRank == 0 {
		return netip.Addr{}, errors.New("this machine has no address other than loopback, which Kubernetes refuses for Pods: connect a network, or give one with --node-address")
	}
	return best, nil
}

// rankAddress returns the address and its rank, higher for one that is more
// likely the machine's own; 0 excludes it. Loopback, link-local and multicast
// addresses are excluded.
func rankAddress(a net.Addr, onLoopback bool) (netip.Addr, int) {
	prefix, err := netip.ParsePrefix(a.String())
	if err != nil {
		return netip.Addr{}, 0
	}
	addr := prefix.Addr().Unmap()
	rank := 0
	switch {
	case !addr.IsGlobalUnicast():
		return addr, 0
	case addr.Is4():
		rank = 4
	default:
		rank = 2
	}
	if onLoopback {
		rank--
	}
	return addr, rank
}
