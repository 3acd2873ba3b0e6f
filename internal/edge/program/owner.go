package program

import (
	"maps"
	"strings"

	"slipway.dev/slipway/internal/route"
)

// A host belongs to a namespace on all listeners, also on those where it has no rule.
// There a route for a wildcard or without a host must not serve it: such a route is
// often that of another tenant. The rules of a listener are found by listener and host,
// so an index by host alone has the owners.

// ownedHost counts the rules of listeners that make a host the property of a namespace.
// It never changes.
type ownedHost struct {
	// host is a name, or for a wildcard its end from the dot.
	host string
	// namespace has all of the rules, and count is their number. Only if several namespaces
	// have some, rules has them all: most hosts have one, and there are thousands.
	namespace string
	count     int
	rules     map[string]int // by namespace
}

// key is the key of the host in its index.
func (o *ownedHost) key() string { return o.host }

// owner returns the namespace that alone may serve the host.
func (o *ownedHost) owner() string {
	if len(o.rules) > 1 {
		return noOwner
	}
	return o.namespace
}

// counting returns the host with more or fewer rules of a namespace; nil without any.
func (o *ownedHost) counting(namespace string, change int) *ownedHost {
	rules := maps.Clone(o.rules)
	if rules == nil {
		rules = map[string]int{}
	}
	if o.count != 0 {
		rules[o.namespace] = o.count
	}
	if rules[namespace] += change; rules[namespace] == 0 {
		delete(rules, namespace)
	}
	if len(rules) > 1 {
		return &ownedHost{host: o.host, rules: rules}
	}
	for only, count := range rules {
		return &ownedHost{host: o.host, namespace: only, count: count}
	}
	return nil
}

// routeOwner returns the namespace that a host, or the end of a wildcard, belongs to by
// the rules of listeners; empty for none. Without any it costs nothing.
func (p *Program) routeOwner(host string) string {
	if p.owners.size == 0 {
		return ""
	}
	if owned := p.owners.get(host); owned != nil {
		return owned.owner()
	}
	return ""
}

// wildcardOwner returns the most specific wildcard for a host that belongs to a namespace
// by the rules of listeners, and that namespace.
func (p *Program) wildcardOwner(host string) (end, owner string) {
	if p.owners.size == 0 {
		return "", ""
	}
	for end, more := lessSpecific(host); more && end != ""; end, more = lessSpecific(end) {
		if owner := p.routeOwner(end); owner != "" {
			return end, owner
		}
	}
	return "", ""
}

// ownerOf returns the namespace that a host, or the end of a wildcard, belongs to;
// empty for none. It does not allocate.
func (p *Program) ownerOf(host string) string {
	if host == "" {
		return ""
	}
	if owner := p.routeOwner(host); owner != "" {
		return owner
	}
	hosts, name := &p.exact, host
	if parent, wildcard := strings.CutPrefix(host, "."); wildcard {
		hosts, name = &p.wildcard, parent
	}
	if hosts.size == 0 {
		return ""
	}
	if found := hosts.get(name); found != nil {
		return found.owner
	}
	return ""
}

// listenerOwner returns the exclusive host of a request of a listener, as lookupListener
// has it.
func (p *Program) listenerOwner(req *Request) exclusiveHost {
	at := firstKey(req.Listener, req.Host)
	for more := true; more && at.host != ""; at.host, more = lessSpecific(at.host) {
		owner := p.ownerOf(at.host)
		if found := p.listeners.get(at); found != nil && found.rules.owner != "" {
			owner = found.rules.owner
		}
		if owner == "" {
			continue
		}
		if strings.HasPrefix(at.host, ".") {
			at.host = "*" + at.host
		}
		return exclusiveHost{at.host, owner}
	}
	return exclusiveHost{}
}

// countOwner counts a rule or TCP route of a listener that came or went. Those of entry
// points are found by their host without it.
func (e *edit) countOwner(listener route.ListenerID, host string, owner route.HostOwner, change int) {
	if listener == (route.ListenerID{}) || host == "" || !owner.Exclusive {
		return
	}
	key := listenerHostOf(listener, host).host
	before := e.owners.get(key)
	if before == nil {
		before = &ownedHost{host: key}
	}
	if next := before.counting(owner.Namespace, change); next != nil {
		e.owners.set(next)
	} else {
		e.owners.delete(key)
	}
}
