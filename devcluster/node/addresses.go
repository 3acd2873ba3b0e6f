package node

import (
	"fmt"
	"net/netip"
	"sync"
)

// addressPool allocates the addresses of a Pod network. The lowest free address
// goes first, so that a small cluster has short, predictable addresses. The
// network's own address, the first usable one (the node's) and an IPv4
// broadcast address are never allocated.
type addressPool struct {
	prefix netip.Prefix
	first  netip.Addr

	// mu guards taken: every worker claims and releases on its own.
	mu    sync.Mutex
	taken map[netip.Addr]bool
}

// newAddressPool returns a pool in which every Pod address is free. Pods that
// already have an address claim it before next is called.
func newAddressPool(prefix netip.Prefix) *addressPool {
	prefix = prefix.Masked()
	return &addressPool{
		prefix: prefix,
		first:  prefix.Addr().Next().Next(),
		taken:  map[netip.Addr]bool{},
	}
}

// claim allocates a particular address; it fails when the address is not a Pod
// address of this network or is taken.
func (p *addressPool) claim(addr netip.Addr) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.usable(addr) || p.taken[addr] {
		return false
	}
	p.taken[addr] = true
	return true
}

// next allocates the lowest free address. It scans from the start, which is
// cheap for the few Pods of a node. A full network is an error that the worker
// retries, because deleted Pods free addresses.
func (p *addressPool) next() (netip.Addr, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for addr := p.first; p.usable(addr); addr = addr.Next() {
		if !p.taken[addr] {
			p.taken[addr] = true
			return addr, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("the Pod network %s has no free address; delete Pods or use a larger network", p.prefix)
}

// release frees an address.
func (p *addressPool) release(addr netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.taken, addr)
}

// usable reports whether the pool may allocate the address. The last address of
// an IPv4 network is its broadcast address.
func (p *addressPool) usable(addr netip.Addr) bool {
	if !p.prefix.Contains(addr) || addr.Less(p.first) {
		return false
	}
	broadcast := addr.Is4() && !p.prefix.Contains(addr.Next())
	return !broadcast
}
