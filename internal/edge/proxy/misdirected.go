package proxy

import (
	"strings"
	"sync/atomic"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/route"
)

// Misdirected is the response to a request on the connection of another host. The
// client connects again (RFC 9110, 15.5.20).
var Misdirected = &filter.LocalResponse{Status: 421, Reason: "Misdirected"}

// ListenerHosts are the host names that share an encrypted listener of the table. They
// change with the table, for open connections too: a name that is added takes its
// requests away from connections that were made before.
type ListenerHosts struct{ names atomic.Pointer[[]string] }

// Set replaces the names. With fewer than two there is nothing to keep apart.
func (h *ListenerHosts) Set(names []string) {
	if len(names) < 2 {
		h.names.Store(nil)
		return
	}
	h.names.Store(&names)
}

// misdirected reports whether a host belongs to another name than the server name of
// its connection does. A host that belongs to none has no route, which is no matter of
// the connection.
func (h *ListenerHosts) misdirected(serverName, host string) bool {
	names := h.names.Load()
	if names == nil || serverName == host {
		return false
	}
	at := mostSpecific(*names, host)
	return at >= 0 && at != mostSpecific(*names, serverName)
}

// mostSpecific returns the index of the most specific name that includes a host: the
// host itself, then the longest wildcard, which stands for one or more labels, then the
// empty name. It is -1 for none.
func mostSpecific(names []string, host string) int {
	found := -1
	for i, name := range names {
		parent, wildcard := route.WildcardParent(name)
		switch {
		case name == host && host != "":
			return i
		case name != "" && !(wildcard && hasSuffixLabel(host, parent)):
		case found < 0 || len(name) > len(names[found]):
			found = i
		}
	}
	return found
}

// hasSuffixLabel reports whether a host is below a parent, by at least one label.
func hasSuffixLabel(host, parent string) bool {
	rest, found := strings.CutSuffix(host, parent)
	return found && len(rest) > 1 && strings.HasSuffix(rest, ".")
}
