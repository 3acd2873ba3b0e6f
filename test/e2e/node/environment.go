package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// hidden returns the folders that components write to by fixed names. A tmpfs
// covers each of them in the mount namespace of the run.
func hidden() []string { return []string{"/run", "/var/lib", "/var/log"} }

// kernelSettings returns the sysctls that the kubelet sets at startup and that
// are not namespaced. Copies cover them, so the host keeps its values.
func kernelSettings() []string {
	return []string{"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"}
}

// prepare creates the folders, the mounts, the network and the control groups.
// The check of the network comes first: every later step would change the host
// if it ran in the wrong namespace.
func (n *Node) prepare(ctx context.Context) error {
	if err := ownNetwork(); err != nil {
		return err
	}
	for _, folder := range []string{"log", "kubelet", "pods", "volumes", "containerd", "cni", "kernel"} {
		if err := os.MkdirAll(n.cfg.path(folder), 0o755); err != nil {
			return err
		}
	}
	for _, folder := range hidden() {
		if _, err := do(ctx, "mount", "-t", "tmpfs", "-o", "mode=755", "slipway-e2e", folder); err != nil {
			return err
		}
	}
	for _, setting := range kernelSettings() {
		if err := n.shield(ctx, setting); err != nil {
			return err
		}
	}
	// The bind mount also covers this process, which resolves the host of the
	// platform through the cluster DNS.
	names := n.cfg.path("resolv.conf")
	if err := write(names, "nameserver "+nodeIP+"\n"); err != nil {
		return err
	}
	if _, err := do(ctx, "mount", "--bind", names, "/etc/resolv.conf"); err != nil {
		return err
	}
	if err := n.connect(ctx); err != nil {
		return err
	}
	return n.makeGroups()
}

// ownNetwork returns an error if the network namespace has an active link,
// which means that it belongs to the host.
func ownNetwork() error {
	links, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, link := range links {
		// Loopback exists in every namespace, and some kernels add tunnel
		// devices that are down.
		if link.Flags&net.FlagLoopback == 0 && link.Flags&net.FlagUp != 0 {
			return fmt.Errorf("the network has the link %s, so it is the machine's own: run scripts/e2e.sh, which makes another", link.Name)
		}
	}
	return nil
}

// shield bind-mounts a copy over a kernel setting. A setting that this kernel
// does not have is skipped.
func (n *Node) shield(ctx context.Context, setting string) error {
	real := filepath.Join("/proc/sys", setting)
	value, err := os.ReadFile(real)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	copied := n.cfg.path("kernel", strings.ReplaceAll(setting, "/", "."))
	if err := write(copied, string(value)); err != nil {
		return err
	}
	_, err = do(ctx, "mount", "--bind", copied, real)
	return err
}

// connect creates the network of the clients outside of the cluster, links it
// with the node by a veth pair, enables forwarding, and writes the CNI
// configuration. Both sides have a default route to each other, so load
// balancer addresses are reachable without further routes.
func (n *Node) connect(ctx context.Context) error {
	err := all(ctx,
		"ip link set lo up",
		"ip netns add "+outsideName,
		"ip link add eth0 type veth peer name eth0 netns "+outsideName,
		"ip address add "+nodeIP+"/24 dev eth0",
		"ip link set eth0 up",
		"ip route add default via "+outsideIP,
		"ip netns exec "+outsideName+" ip link set lo up",
		"ip netns exec "+outsideName+" ip address add "+outsideIP+"/24 dev eth0",
		"ip netns exec "+outsideName+" ip link set eth0 up",
		"ip netns exec "+outsideName+" ip route add default via "+nodeIP,
	)
	if err != nil {
		return err
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return err
	}
	// Without it, a response between two Pods on the same bridge bypasses
	// iptables, and the client sees the Pod address instead of the Service's.
	if err := os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-iptables", []byte("1"), 0o644); err != nil {
		return fmt.Errorf("the kernel does not filter bridges (%w): modprobe br_netfilter", err)
	}
	// hairpinMode lets a Pod reach itself through its own Service.
	return write(n.cfg.path("cni", "10-slipway.conflist"), fmt.Sprintf(`{
  "cniVersion": "0.4.0",
  "name": "slipway",
  "plugins": [
    {"type": "bridge", "bridge": "pods0", "isGateway": true, "hairpinMode": true,
     "ipam": {"type": "host-local", "dataDir": %q, "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}]}},
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`, n.cfg.path("addresses"), podRange))
}

// OutsideCommand returns the command line that runs words in the network
// outside of the cluster.
func OutsideCommand(words ...string) []string {
	return append([]string{"ip", "netns", "exec", outsideName}, words...)
}
