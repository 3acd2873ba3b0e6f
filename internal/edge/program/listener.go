package program

import (
	"iter"
	"strings"
	"unique"

	"slipway.dev/slipway/internal/route"
)

// Listener is a listener of the table, in a form that is quick to compare and to
// hash. The zero Listener is none.
type Listener = unique.Handle[route.ListenerID]

// The rules of listeners are in an index of their own, so that the thousands of
// listeners that a cluster can have cost entry points nothing. Its key has the
// listener and the host: no rule of one listener is ever tried for another. A
// wildcard stands for one or more labels, and its key begins with the dot. So the
// keys of all wildcards that fit a name are the ends of the name, and a lookup needs
// no memory.

// listenerHost is the key of the rules of a listener with one host, empty for none.
type listenerHost struct {
	listener Listener
	host     string
}

// listenerBucket are the rules of a listener with one host.
type listenerBucket struct {
	at    listenerHost
	rules *bucket
}

// key is the key of the bucket in its index.
func (b *listenerBucket) key() listenerHost { return b.at }

// listenerHostOf returns the key of a listener and a host.
func listenerHostOf(listener route.ListenerID, host string) listenerHost {
	if _, wildcard := route.WildcardParent(host); wildcard {
		host = host[1:]
	}
	return listenerHost{unique.Make(listener), host}
}

// listenerBucket returns the rules with the listener and host of a rule, an empty
// bucket if there are none yet.
func (e *edit) listenerBucket(rule *route.Rule) *bucket {
	at := listenerHostOf(rule.Listener, rule.Host)
	if found := e.listeners.get(at); found != nil {
		return found.rules
	}
	return newBucket(at.host, e.next.generation)
}

// setListenerBucket stores the rules with the listener and host of a rule; nil
// removes them.
func (e *edit) setListenerBucket(rule *route.Rule, b *bucket) {
	at := listenerHostOf(rule.Listener, rule.Host)
	if b == nil {
		e.listeners.delete(at)
		return
	}
	e.listeners.set(&listenerBucket{at, b})
}

// lookupListener finds the rule that serves a request of a listener: that of the
// most specific host with a rule that matches. Rules of listeners have no priority. A
// host without rules here may belong to a namespace by its rules elsewhere: then only
// that namespace may serve it by a less specific rule.
func (p *Program) lookupListener(req *Request) Result {
	owner := ""
	at := firstKey(req.Listener, req.Host)
	for more := true; more; at.host, more = lessSpecific(at.host) {
		found := p.listeners.get(at)
		if found == nil {
			if owner == "" {
				owner = p.ownerOf(at.host)
			}
			continue
		}
		b := found.rules
		if owner == "" && b.entryPointMask != 0 && strings.HasPrefix(req.Path, "/") {
			return b.single
		}
		if rule := b.search(req, allEntryPoints, nil, owner); rule != nil {
			return rule.result()
		}
		if owner == "" {
			owner = b.owner
		}
		if owner == "" { // rules of the edge itself name no owner
			owner = p.ownerOf(at.host)
		}
	}
	return Result{}
}

// allEntryPoints is a mask that every rule of a listener matches: it has no entry
// points.
const allEntryPoints = ^uint64(0)

// firstKey returns the key of the most specific rules for a host. A name that begins
// with a dot would look like the key of a wildcard, and is the name of nothing.
func firstKey(listener Listener, host string) listenerHost {
	if strings.HasPrefix(host, ".") {
		return listenerHost{listener: listener}
	}
	return listenerHost{listener, host}
}

// lessSpecific returns the key of the next wildcard that fits a name, and an empty
// one at the end: .example.com after a.example.com, then .com, then none. It reports
// false after that.
func lessSpecific(host string) (string, bool) {
	if host == "" {
		return "", false
	}
	// The first byte is skipped: a wildcard stands for at least one label, and the
	// end that was tried last begins with its dot.
	if dot := strings.IndexByte(host[1:], '.'); dot >= 0 {
		return host[1+dot:], true
	}
	return "", true
}

// listenerBuckets returns the rules of a listener for all hosts that match a
// request, by host, the most specific first.
func (p *Program) listenerBuckets(req *Request) iter.Seq2[string, *bucket] {
	return func(yield func(string, *bucket) bool) {
		at := firstKey(req.Listener, req.Host)
		for more := true; more; at.host, more = lessSpecific(at.host) {
			host := at.host
			if strings.HasPrefix(host, ".") {
				host = "*" + host
			}
			if found := p.listeners.get(at); found != nil && !yield(host, found.rules) {
				return
			}
		}
	}
}
