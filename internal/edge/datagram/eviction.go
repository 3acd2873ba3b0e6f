package datagram

import "net/netip"

// A source address can be forged, and one machine has thousands of ports. So a relay
// with all the flows that it may have does not turn new clients away: it ends the flow
// that is worth least. A client that goes on after a response, as one with a forged
// address rarely can, comes before those that do not, networks with few flows before
// those with many, and active clients before idle ones.

const (
	// evictionSamples is the number of flows that are compared. The worst of so many is
	// nearly always one of those who take most, and a flood costs no more than this.
	evictionSamples = 16
	// networkBits4 and networkBits6 are the lengths of the prefixes of one network: what
	// a provider assigns to one customer, at least.
	networkBits4 = 24
	networkBits6 = 48
)

// networkOf returns the network that the flows of a client are counted by.
func networkOf(client netip.AddrPort) netip.Prefix {
	address, bits := client.Addr().Unmap(), networkBits4
	if address.Is6() {
		bits = networkBits6
	}
	network, _ := address.WithZone("").Prefix(bits) // both are shorter than an address
	return network
}

// makeRoom reports whether a client of a network can have a flow, and ends another one
// for it at the limit. The caller holds mu.
func (r *Relay) makeRoom(source netip.Prefix) bool {
	if len(r.flows) < r.config.MaxFlows {
		return true
	}
	victim := r.leastWorth()
	// Sockets of flows that were ended close in their own time: they are bounded too.
	evicted := r.open < r.config.MaxFlows+max(evictionSamples, r.config.MaxFlows/8) &&
		(!victim.confirmed.Load() || r.sources[victim.source] > r.sources[source])
	if evicted {
		r.remove(victim)
		victim.interrupt()
	}
	if r.config.Full != nil {
		r.config.Full(evicted)
	}
	return evicted
}

// leastWorth returns the flow that ends first among some that are chosen at random, by
// the order of a map. There is one.
func (r *Relay) leastWorth() *flow {
	var worst *flow
	compared := 0
	for _, f := range r.flows {
		if worst == nil || r.worthLess(f, worst) {
			worst = f
		}
		if compared++; compared == evictionSamples {
			break
		}
	}
	return worst
}

// worthLess reports whether a flow ends before another one.
func (r *Relay) worthLess(f, other *flow) bool {
	if a, b := f.confirmed.Load(), other.confirmed.Load(); a != b {
		return !a
	}
	if a, b := r.sources[f.source], r.sources[other.source]; a != b {
		return a > b
	}
	return f.last.Load() < other.last.Load()
}
