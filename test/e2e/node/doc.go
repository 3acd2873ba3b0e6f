// Package node runs a complete single-node Kubernetes cluster for the
// end-to-end test: the control plane of the development cluster, a kubelet and
// kube-proxy of the same version, a private containerd, a Pod network, cluster
// DNS, and load balancers with addresses.
//
// It leaves the host unchanged. It runs in namespaces that the caller creates
// (network, mounts, processes), mounts a tmpfs over the folders that the
// components write to by name, keeps everything else in one working folder, and
// stops only processes that it started. Two things are not covered by a
// namespace: control groups, which Stop removes, and kernel settings, which are
// bind-mounted so that the components write to copies.
//
// It refuses to start in the host's own network.
package node

import (
	"net/netip"
	"path/filepath"
)

// Name is the name of the Node object.
const Name = "slipway"

// Addresses and paths of the cluster. The addresses exist only in its own
// network namespace, so they cannot collide with those of the host.
const (
	// podRange is the range that the CNI plugin assigns Pod addresses from.
	podRange     = "10.244.0.0/24"
	kubernetesIP = "10.96.0.1" // the Service kubernetes, as the control plane assigns it
	// balancers is the range for Services of type LoadBalancer. It is routed to
	// the node from outside, where kube-proxy translates the addresses.
	balancers = "10.100.1.0/24"
	// nodeIP and outsideIP are the two ends of the veth pair that connects the
	// node with the network of the clients.
	nodeIP       = "10.100.0.1"
	outsideIP    = "10.100.0.2"
	outsideName  = "outside"
	apiPort      = "6443"
	domain       = "cluster.local"
	socket       = "/run/containerd/containerd.sock"
	plugins      = "/usr/lib/cni"
	sandboxImage = "slipway.dev/e2e-pause:v1"
)

// SandboxImage is the pause image that holds the network namespace of a Pod.
// Config.Images has to contain it, because nothing is pulled from a registry.
const SandboxImage = sandboxImage

// Address returns the address of the node, where Pods reach servers that run in
// this process.
func Address() netip.Addr { return netip.MustParseAddr(nodeIP) }

// Config describes the node.
type Config struct {
	// Bin is the folder with slipway-devcluster and slipway-node. Work is an
	// empty folder for all state; its base name also names the control group of
	// the run.
	Bin, Work string
	// Images are OCI archives that are imported into containerd before the
	// kubelet starts.
	Images []string
	// Names are additional DNS names that Pods can resolve. The value is an
	// address, or "namespace/name" of a Service whose load balancer address the
	// name resolves to.
	Names map[string]string
}

// path joins words below the working folder.
func (c Config) path(words ...string) string {
	return filepath.Join(append([]string{c.Work}, words...)...)
}
