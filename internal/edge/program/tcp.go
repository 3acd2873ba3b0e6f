package program

import (
	"fmt"
	"slices"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/route"
)

// TCPRequest is what a connection is routed by.
type TCPRequest struct {
	EntryPoint string
	// Listener is the listener of the table that took the connection; zero for an
	// entry point.
	Listener Listener
	// TLS is set if the connection started with a TLS ClientHello.
	TLS bool
	// ServerName is the SNI, normalised as a host is; empty when there is none.
	ServerName string
}

// TCPResult is what LookupTCP found. Without a route the connection is read as
// HTTP.
type TCPResult struct {
	Route *route.TCPRoute
	// Binding is what Compiler.BindTCP made for the route.
	Binding any
}

// tcpIndex has the TCP routes by server name, each list in order.
type tcpIndex struct {
	routes   sharded[route.TCPRouteID, *compiledTCP]
	exact    sharded[string, *tcpList]
	wildcard sharded[string, *tcpList]
	none     *tcpList
	// listeners has the routes of listeners, with the keys of their rules.
	listeners sharded[listenerHost, *listenerTCP]
}

// listenerTCP are the TCP routes of a listener with one server name.
type listenerTCP struct {
	at   listenerHost
	list tcpList
}

// key is the key of the routes in their index.
func (l *listenerTCP) key() listenerHost { return l.at }

// tcpList has the routes with one server name, in order. It never changes.
type tcpList struct {
	name   string
	routes []*compiledTCP
}

func (l *tcpList) key() string { return l.name }

// compiledTCP is a TCP route in the form in which it is compared with
// connections.
type compiledTCP struct {
	source      *route.TCPRoute
	entryPoints uint64
	binding     any
}

func (c *compiledTCP) key() route.TCPRouteID { return c.source.ID }

// LookupTCP finds the route of a connection. It does not allocate.
func (p *Program) LookupTCP(req *TCPRequest) TCPResult {
	if req.Listener != (Listener{}) {
		return p.lookupListenerTCP(req).result()
	}
	entryPoint := p.entryPointBit(req.EntryPoint)
	best := p.tcp.none.first(req, entryPoint)
	if req.ServerName == "" || !req.TLS {
		return best.result()
	}
	owner := p.ownerOf(req.ServerName)
	if parent, ok := parentOf(req.ServerName); ok {
		wildcard := p.tcp.wildcard.get(parent).first(req, entryPoint)
		best = p.owned(best, owner, req.ServerName[len(req.ServerName)-len(parent)-1:])
		best = earlierTCP(best, p.owned(wildcard, owner, ""))
	}
	best = earlierTCP(p.owned(best, owner, ""), p.tcp.exact.get(req.ServerName).first(req, entryPoint))
	return best.result()
}

// owned returns a route of a less specific server name, unless the name belongs to another
// namespace, by itself or by its wildcard. Rules take the connection then. A plain route
// was given its entry point as a whole.
func (p *Program) owned(found *compiledTCP, owner, wildcard string) *compiledTCP {
	if found == nil || found.source.TLS == route.TLSPlain {
		return found
	}
	if owner == "" {
		owner = p.ownerOf(wildcard)
	}
	if owner != "" && !found.servesHostOf(owner) {
		return nil
	}
	return found
}

// lookupListenerTCP finds the route of a connection of a listener: the first one of the
// most specific server name. A less specific one does not serve a name that belongs
// to another namespace.
func (p *Program) lookupListenerTCP(req *TCPRequest) *compiledTCP {
	owner := ""
	at := firstKey(req.Listener, req.ServerName)
	for more := true; more; at.host, more = lessSpecific(at.host) {
		if found := p.tcp.listeners.get(at); found != nil {
			best := found.list.first(req, allEntryPoints)
			if best != nil && owner != "" && !best.servesHostOf(owner) {
				return nil
			}
			return best
		}
		if owner == "" {
			owner = p.ownerOf(at.host)
		}
	}
	return nil
}

// servesHostOf is that of a rule, for server names.
func (c *compiledTCP) servesHostOf(owner string) bool {
	return c.source.HostOwner.Namespace == "" || c.source.ID.Namespace == owner
}

// result is the result of a lookup that finds the route; nil is none.
func (c *compiledTCP) result() TCPResult {
	if c == nil {
		return TCPResult{}
	}
	return TCPResult{Route: c.source, Binding: c.binding}
}

// first returns the first route that matches.
func (l *tcpList) first(req *TCPRequest, entryPoint uint64) *compiledTCP {
	if l == nil {
		return nil
	}
	for _, candidate := range l.routes {
		if candidate.entryPoints&entryPoint != 0 && (req.TLS || candidate.source.TLS == route.TLSPlain) {
			return candidate
		}
	}
	return nil
}

// earlierTCP returns the route that comes first in order; either may be nil.
func earlierTCP(a, b *compiledTCP) *compiledTCP {
	if a == nil || b != nil && b.source.Compare(a.source) < 0 {
		return b
	}
	return a
}

// tcpEdit is the part of an edit that changes TCP routes.
type tcpEdit struct {
	routes   *shardEdit[route.TCPRouteID, *compiledTCP]
	exact    *shardEdit[string, *tcpList]
	wildcard *shardEdit[string, *tcpList]
	none     *tcpList

	listeners *shardEdit[listenerHost, *listenerTCP]
}

func (t *tcpIndex) edit() *tcpEdit {
	return &tcpEdit{t.routes.edit(), t.exact.edit(), t.wildcard.edit(), t.none, t.listeners.edit()}
}

// done returns the changed index.
func (t *tcpEdit) done() tcpIndex {
	return tcpIndex{t.routes.sharded, t.exact.sharded, t.wildcard.sharded, t.none, t.listeners.sharded}
}

// list copies the routes with the place of a route: its listener and server name.
// The list is short.
func (t *tcpEdit) list(source *route.TCPRoute) []*compiledTCP {
	if source.Listener != (route.ListenerID{}) {
		if found := t.listeners.get(listenerHostOf(source.Listener, source.ServerName)); found != nil {
			return slices.Clone(found.list.routes)
		}
		return nil
	}
	names, name := placeOf(t.exact, t.wildcard, source.ServerName)
	list := t.none
	if names != nil {
		list = names.get(name)
	}
	if list == nil {
		return nil
	}
	return slices.Clone(list.routes)
}

// setList stores the routes with the place of a route; an empty list removes it.
func (t *tcpEdit) setList(source *route.TCPRoute, routes []*compiledTCP) {
	at := listenerHostOf(source.Listener, source.ServerName)
	names, name := placeOf(t.exact, t.wildcard, source.ServerName)
	switch bound := source.Listener != (route.ListenerID{}); {
	case bound && len(routes) == 0:
		t.listeners.delete(at)
	case bound:
		t.listeners.set(&listenerTCP{at, tcpList{routes: routes}})
	case names == nil:
		t.none = &tcpList{routes: routes}
	case len(routes) == 0:
		names.delete(name)
	default:
		names.set(&tcpList{name: name, routes: routes})
	}
}

// addTCP validates, binds and inserts a TCP route, as addRule does.
func (e *edit) addTCP(source *route.TCPRoute) error {
	if e.tcp.routes.get(source.ID) != nil {
		return e.changeError("TCP route %s is added, but it is there", source.ID)
	}
	if !e.checked {
		if problems := source.Validate(); len(problems) > 0 {
			e.problems = append(e.problems, problems...)
			return nil
		}
	}
	compiled := &compiledTCP{source: source, entryPoints: e.useEntryPoints(source.ID, source.EntryPoints)}
	if bind := e.next.compiler.BindTCP; bind != nil {
		binding, err := bind(source)
		if err != nil {
			return fmt.Errorf("TCP route %s: %w", source.ID, err)
		}
		compiled.binding = binding
	}
	routes := e.tcp.list(source)
	i, _ := slices.BinarySearchFunc(routes, compiled, compareTCP)
	routes = slices.Insert(routes, i, compiled)
	if len(routes) > route.MaxRoutesPerServerName {
		e.problem(source.ID, "serverName", refusal.TooMany, "there are %d other routes with this server name, which is the limit; remove some", route.MaxRoutesPerServerName)
	}
	e.tcp.setList(source, routes)
	e.tcp.routes.set(compiled)
	e.countOwner(source.Listener, source.ServerName, source.HostOwner, 1)
	e.useBackends(source.ID, source.BackendIDs)
	return nil
}

// removeTCP removes a TCP route with its uses.
func (e *edit) removeTCP(id route.TCPRouteID) error {
	compiled := e.tcp.routes.get(id)
	if compiled == nil {
		return e.changeError("TCP route %s is changed or removed, but it is not there", id)
	}
	routes := e.tcp.list(compiled.source)
	routes = slices.DeleteFunc(routes, func(r *compiledTCP) bool { return r == compiled })
	e.tcp.setList(compiled.source, routes)
	e.tcp.routes.delete(id)
	e.countOwner(compiled.source.Listener, compiled.source.ServerName, compiled.source.HostOwner, -1)
	e.releaseEntryPoints(compiled.source.EntryPoints)
	e.releaseBackends(compiled.source.BackendIDs)
	return nil
}

func compareTCP(a, b *compiledTCP) int { return a.source.Compare(b.source) }
