package filter

import (
	"net/netip"
	"strings"

	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/route"
)

// clientSource selects the address of a client among those of X-Forwarded-For; nil selects
// the one of the entry point.
type clientSource struct {
	depth    int
	excluded addressSet
}

func newClientSource(a *route.ClientSource) (*clientSource, error) {
	if a == nil {
		return nil, nil
	}
	excluded, err := newAddressSet("client.excluded", a.Excluded)
	return &clientSource{depth: a.Depth, excluded: excluded}, err
}

// of returns the address of the client. It is invalid where the source selects none: the
// header is too short, or its sender is no trusted proxy and can write anything.
func (s *clientSource) of(x *Exchange) netip.Addr {
	switch {
	case s == nil:
		return x.Client
	case !x.Trusted:
		return netip.Addr{}
	}
	place := 0
	for line := x.Head.Len() - 1; line >= 0; line-- {
		if x.Head.ID(line) != normalize.FieldXForwardedFor {
			continue
		}
		list := normalize.View(x.Head.Value(line))
		for more := true; more; {
			entry := list
			at := strings.LastIndexByte(list, ',')
			if more = at >= 0; more {
				entry, list = list[at+1:], list[:at]
			}
			place++
			if entry = strings.TrimSpace(entry); s.skips(entry, place) {
				continue
			}
			addr, err := netip.ParseAddr(entry)
			if err != nil {
				return netip.Addr{}
			}
			return addr.Unmap().WithZone("")
		}
	}
	return netip.Addr{}
}

// skips reports whether an entry, at a place from the right, is not the client.
func (s *clientSource) skips(entry string, place int) bool {
	if s.depth > 0 {
		return place != s.depth
	}
	addr, err := netip.ParseAddr(entry)
	return entry == "" || err == nil && s.excluded.contains(addr.Unmap().WithZone(""))
}
