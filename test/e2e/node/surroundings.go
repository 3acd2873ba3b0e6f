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

// hidden are folders that the parts write to by name. An empty one covers each.
func hidden() []string { return []string{"/run", "/var/lib", "/var/log"} }

// kernelSettings are those that a kubelet changes for the whole machine. It gets
// copies.
func kernelSettings() []string {
	return []string{"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"}
}

// prepare makes the surroundings: folders, names, the network and control groups.
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

// ownNetwork refuses a network that has links: those are the machine's.
func ownNetwork() error {
	links, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, link := range links {
		// Some kernels put these into every new network.
		if link.Flags&net.FlagLoopback == 0 && link.Flags&net.FlagUp != 0 {
			return fmt.Errorf("the network has the link %s, so it is the machine's own: run scripts/e2e.sh, which makes another", link.Name)
		}
	}
	return nil
}

// shield puts a copy over a setting of the kernel.
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

// connect links the node with a network outside of the cluster, in which clients
// are, and lets it route.
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
	// Answers of a Pod to another one on the same bridge have to pass the translation of addresses too.
	if err := os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-iptables", []byte("1"), 0o644); err != nil {
		return fmt.Errorf("the kernel does not filter bridges (%w): modprobe br_netfilter", err)
	}
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

// OutsideCommand is a command as somebody outside of the cluster runs it.
func OutsideCommand(words ...string) []string {
	return append([]string{"ip", "netns", "exec", outsideName}, words...)
}
