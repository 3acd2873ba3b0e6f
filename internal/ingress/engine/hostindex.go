package engine

import (
	"iter"
	"strings"

	"slipway.dev/slipway/internal/route"
)

// hostAt is a host name of a listener that a route of a namespace has; empty if namespaces
// make no difference.
type hostAt struct {
	listener  route.ListenerID
	host      string
	namespace string
}

// hostKey is a key of indexes that find the host names which have a name in common with
// another one, as gateway.Intersect decides it for two, without comparing it with each: a
// tenant can have thousands. Those of different namespaces have none in common unless they
// are the same: a wildcard does not serve the host of another namespace.
type hostKey struct {
	listener  route.ListenerID
	part      hostPart
	text      string
	namespace string
}

// hostPart is what the text of a hostKey is.
type hostPart uint8

const (
	// noHost stands for all host names, and has no text.
	noHost hostPart = iota
	// wildcardSuffix is what follows the star of a wildcard.
	wildcardSuffix
	// parentDomain is a suffix that a host name ends with, from its dot.
	parentDomain
	// anyHost has all host names of the listener, and no text.
	anyHost
	// sameHost is a host name as it is, also a wildcard, of routes of any namespace.
	sameHost
)

// keys yields the keys that a host name is stored with.
func (h hostAt) keys() iter.Seq[hostKey] {
	return func(yield func(hostKey) bool) {
		if !yield(h.same()) || !yield(h.key(anyHost, "")) {
			return
		}
		if h.host == "" {
			yield(h.key(noHost, ""))
			return
		}
		if _, wildcard := route.WildcardParent(h.host); wildcard && !yield(h.key(wildcardSuffix, h.host[1:])) {
			return
		}
		for suffix, more := parentSuffix(h.host); more; suffix, more = parentSuffix(suffix) {
			if !yield(h.key(parentDomain, suffix)) {
				return
			}
		}
	}
}

// key returns a key for routes of the namespace.
func (h hostAt) key(part hostPart, text string) hostKey {
	return hostKey{h.listener, part, text, h.namespace}
}

// same returns the key for routes of any namespace with the same host name.
func (h hostAt) same() hostKey { return hostKey{listener: h.listener, part: sameHost, text: h.host} }

// matches yields the keys of which each host name with a name in common has at least one.
func (h hostAt) matches() iter.Seq[hostKey] {
	return func(yield func(hostKey) bool) {
		if !yield(h.same()) {
			return
		}
		if h.host == "" {
			yield(h.key(anyHost, ""))
			return
		}
		if !yield(h.key(noHost, "")) {
			return
		}
		if _, wildcard := route.WildcardParent(h.host); wildcard && !yield(h.key(parentDomain, h.host[1:])) {
			return
		}
		for suffix, more := parentSuffix(h.host); more; suffix, more = parentSuffix(suffix) {
			if !yield(h.key(wildcardSuffix, suffix)) {
				return
			}
		}
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

// hostIndex finds the first of many host names that has a name in common with another
// one. It has the place of the first by each key.
type hostIndex map[hostKey]int

// add adds a host name. An earlier place counts.
func (x hostIndex) add(host hostAt, place int) {
	for key := range host.keys() {
		if before, found := x[key]; !found || place < before {
			x[key] = place
		}
	}
}

// first returns the place of the first host name that has one in common with host.
func (x hostIndex) first(host hostAt) (int, bool) {
	best, shared := 0, false
	for key := range host.matches() {
		if place, found := x[key]; found && (!shared || place < best) {
			best, shared = place, true
		}
	}
	return best, shared
}
