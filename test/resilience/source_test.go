package resilience

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
)

// source is where attackers connect from. All of 127.0.0.0/8 is this machine,
// and the honest client comes from 127.0.0.1.
type source string

const (
	// ownAddress is one address for each attacker, and others for each flood:
	// the edge remembers who has flooded.
	ownAddress source = "own"
	// anyAddress is another address for each connection, 65,536 for each flood.
	anyAddress source = "any"
	// honestAddress is the honest client's.
	honestAddress source = "honest"
)

// place is where the next connection comes from.
type place func() net.IP

// placeOf is where one of the attackers connects from. count is shared by those
// that attack together.
func (s source) placeOf(flood string, attacker int, count *atomic.Uint32) place {
	switch s {
	case anyAddress:
		return func() net.IP {
			n := count.Add(1)
			return net.IPv4(127, byte(64+ordinal(flood)), byte(n>>8), byte(n))
		}
	case honestAddress:
		return func() net.IP { return net.IPv4(127, 0, 0, 1) }
	}
	ip := net.IPv4(127, 1, byte(ordinal(flood)), byte(attacker+1))
	return func() net.IP { return ip }
}

// ordinal is the place of a flood in the list.
func ordinal(name string) int {
	for i, f := range floods() {
		if f.name == name {
			return i
		}
	}
	return -1
}

// order is what an attacker's process has to do.
type order struct {
	flood, address string
	from           source
}

func (o order) String() string { return fmt.Sprintf("%s@%s@%s", o.flood, o.from, o.address) }

func parseOrder(text string) (o order, ok bool) {
	parts := strings.Split(text, "@")
	if len(parts) != 3 {
		return o, false
	}
	return order{flood: parts[0], from: source(parts[1]), address: parts[2]}, ordinal(parts[0]) >= 0
}
