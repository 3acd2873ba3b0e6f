package engine

import (
	"strings"

	"slipway.dev/slipway/internal/route"
)

// hostIndex finds the first of many host names of listeners that has a name in common
// with another one, as gateway.Intersect decides it for two, without comparing it with
// each: a tenant can have thousands.
type hostIndex struct {
	// hosts has host names as they are, with the place of the first, and wildcards has
	// those with a star by what follows it.
	hosts, wildcards map[hostAt]int
	// below has the first host name that ends with a suffix, from its dot.
	below map[hostAt]int
	// all has the first host name of a listener.
	all map[route.ListenerID]int
}

// hostAt is a host name, or a suffix, of a listener.
type hostAt struct {
	listener route.ListenerID
	host     string
}

func newHostIndex() *hostIndex {
	return &hostIndex{hosts: map[hostAt]int{}, wildcards: map[hostAt]int{}, below: map[hostAt]int{}, all: map[route.ListenerID]int{}}
}

// add adds a host name. An earlier place counts.
func (x *hostIndex) add(listener route.ListenerID, host string, place int) {
	if _, wildcard := route.WildcardParent(host); wildcard {
		setFirst(x.wildcards, hostAt{listener, host[1:]}, place)
	} else {
		setFirst(x.hosts, hostAt{listener, host}, place)
	}
	setFirst(x.all, listener, place)
	for suffix, more := parentSuffix(host); more; suffix, more = parentSuffix(suffix) {
		setFirst(x.below, hostAt{listener, suffix}, place)
	}
}

// first returns the place of the first host name that has one in common with host.
func (x *hostIndex) first(listener route.ListenerID, host string) (int, bool) {
	if host == "" {
		place, found := x.all[listener]
		return place, found
	}
	var best firstPlace
	best.take(x.hosts, hostAt{listener, ""})
	best.take(x.hosts, hostAt{listener, host})
	if _, wildcard := route.WildcardParent(host); wildcard {
		best.take(x.below, hostAt{listener, host[1:]})
	}
	for suffix, more := parentSuffix(host); more; suffix, more = parentSuffix(suffix) {
		best.take(x.wildcards, hostAt{listener, suffix})
	}
	return best.place, best.found
}

// firstPlace is the least of some places.
type firstPlace struct {
	place int
	found bool
}

// take takes the place of a key into account.
func (f *firstPlace) take(places map[hostAt]int, key hostAt) {
	if place, found := places[key]; found && (!f.found || place < f.place) {
		f.place, f.found = place, true
	}
}

// setFirst keeps the least place of a key.
func setFirst[K comparable](places map[K]int, key K, place int) {
	if before, found := places[key]; !found || place < before {
		places[key] = place
	}
}

// parentSuffix returns the next shorter suffix of a host name or suffix, from its dot.
func parentSuffix(host string) (string, bool) {
	if host == "" {
		return "", false
	}
	at := strings.IndexByte(host[1:], '.')
	if at < 0 {
		return "", false
	}
	return host[1+at:], true
}
