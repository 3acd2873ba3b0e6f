// Package node runs a whole cluster of one real node, as a cloud would give it:
// the control plane of the development cluster, a kubelet and kube-proxy of the
// same version, a containerd of its own, a network for Pods, cluster DNS, and
// load balancers with addresses.
//
// It promises to touch nothing of the machine. It runs in namespaces that the
// caller has made (network, mounts, processes), hides the folders that the parts
// write to by name, keeps everything else in one working folder, and ends only
// processes that it has started. What no namespace covers are the control groups,
// which Stop removes, and the kernel's settings, which the parts do not reach.
//
// It refuses to start in the machine's own network.
package node

import (
	"net/netip"
	"path/filepath"
)

// Name is that of the node.
const Name = "slipway"

// Addresses of the cluster. They exist in its own network only.
const (
	podRange     = "10.244.0.0/24"
	kubernetesIP = "10.96.0.1" // the Service kubernetes, as the control plane has it
	balancers    = "10.100.1.0/24"
	nodeIP       = "10.100.0.1"
	outsideIP    = "10.100.0.2"
	outsideName  = "outside"
	apiPort      = "6443"
	domain       = "cluster.local"
	socket       = "/run/containerd/containerd.sock"
	plugins      = "/usr/lib/cni"
	sandboxImage = "slipway.dev/e2e-pause:v1"
)

// SandboxImage is the image that holds the network of a Pod. It has to be in
// Config.Images.
const SandboxImage = sandboxImage

// Address is that of the node, where Pods reach what runs beside them.
func Address() netip.Addr { return netip.MustParseAddr(nodeIP) }

// Config says what the node is made of.
type Config struct {
	// Bin is the folder with slipway-devcluster and slipway-node, and Work one that
	// is empty.
	Bin, Work string
	// Images are archives to load.
	Images []string
	// Names are those of no Service that Pods can resolve: a host, and the address
	// that it has, or the Service "namespace/name" whose load balancer it leads to.
	Names map[string]string
}

func (c Config) path(words ...string) string {
	return filepath.Join(append([]string{c.Work}, words...)...)
}
