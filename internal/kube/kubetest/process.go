package kubetest

import (
	"errors"
	"net/netip"
	"sync"
	"testing"
)

// process is what all tests of a process share. It is the one variable of
// this package because a TestMain can hand nothing to its tests.
var process processState

type processState struct {
	networks podNetworks

	sharedOnce sync.Once
	shared     *Cluster
	sharedErr  error
}

// Shared returns the cluster that all tests of the process use. The first
// call starts it, with a node, and Main stops it after the last test. Tests
// keep apart by using a Namespace each. Its log is shown by each failing test
// that asked for it.
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

func (p *processState) stopShared() error {
	if p.shared == nil {
		return nil
	}
	return errors.Join(p.shared.stop(), p.shared.remove())
}

// podNetworks gives each cluster a part of PodNetwork and takes it back.
type podNetworks struct {
	mu   sync.Mutex
	used [256]bool
}

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

func (n *podNetworks) release(network netip.Prefix) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.used[network.Addr().As4()[2]] = false
}
