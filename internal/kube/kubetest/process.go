package kubetest

import (
	"errors"
	"net/netip"
	"sync"
	"testing"

	"slipway.dev/slipway/internal/kube/kubetest/privatenet"
)

// process is the state that all tests of a process share. It is a package
// variable because a TestMain cannot pass values to its tests.
var process processState

// processState has the assigned Pod networks and the shared cluster. sharedErr
// keeps the error of the only start, so that every later test fails fast with
// it.
type processState struct {
	networks podNetworks

	sharedOnce sync.Once
	shared     *Cluster
	sharedErr  error
}

// Shared returns the cluster that all tests of the process use. The first call
// starts it, with a node, and Main stops it after the last test. Tests isolate
// themselves by using a Namespace each. Each failing test that called Shared
// prints the end of the cluster's log.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	requireNetwork(t)
	process.sharedOnce.Do(func() {
		process.shared, process.sharedErr = newCluster(nil)
		if process.sharedErr != nil {
			return
		}
		process.shared.isShared = true
		process.sharedErr = process.shared.start()
	})
	if process.shared != nil {
		process.shared.showLogOnFailure(t)
	}
	if process.sharedErr != nil {
		t.Fatalf("start the shared cluster: %v", process.sharedErr)
	}
	return process.shared
}

// SharedNamespace returns the shared cluster and a new namespace in it.
func SharedNamespace(t testing.TB) (*Cluster, string) {
	t.Helper()
	cluster := Shared(t)
	return cluster, cluster.Namespace(t)
}

// stopShared stops and removes the shared cluster, if a test has started it.
func (p *processState) stopShared() error {
	if p.shared == nil {
		return nil
	}
	return errors.Join(p.shared.stop(), p.shared.remove())
}

// podNetworks assigns each cluster a /24 of PodNetwork. used is indexed by the
// third byte of the address, and guarded by mu.
type podNetworks struct {
	mu   sync.Mutex
	used [256]bool
}

// take reserves the first free network.
func (n *podNetworks) take() (netip.Prefix, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for third, used := range n.used {
		if used {
			continue
		}
		n.used[third] = true
		base := PodNetwork().Addr().As4()
		base[2] = byte(third)
		return netip.PrefixFrom(netip.AddrFrom4(base), 24), nil
	}
	return netip.Prefix{}, errors.New("all 256 pod networks are in use: stop clusters that are no longer needed")
}

// release frees a network. The cluster that had it must have stopped.
func (n *podNetworks) release(network netip.Prefix) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.used[network.Addr().As4()[2]] = false
}

// PodNetwork returns the range whose addresses are all local in the private
// network. Each cluster of a test process gets a /24 of it.
func PodNetwork() netip.Prefix { return privatenet.PodNetwork() }

// HostAddress returns the address of the host in the private network.
func HostAddress() netip.Addr { return privatenet.HostAddress() }
