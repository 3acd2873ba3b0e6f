package route

import (
	"cmp"
	"time"
)

// TCPRoute passes connections of an entry point or a listener on to a backend. Of one
// for UDP it passes the datagrams on: those of one client are a connection,
// until there are none for a while.
//
// Of several, the order decides as for rules: priority, exact server name,
// wildcard, none, older, identity. A TLS connection is offered to the routes
// that terminate or pass TLS before those that are plain. A connection that no TCP
// route matches is read as HTTP.
type TCPRoute struct {
	ID TCPRouteID `json:"id"`
	// EntryPoints are the entry points that the route serves. There is no
	// default: a TCP route takes connections away from all rules.
	EntryPoints []string `json:"entryPoints,omitempty"`
	// Listener ties the route to one listener, instead of to entry points. A wildcard
	// stands for one or more labels then, and a longer one comes before a shorter one.
	Listener ListenerID `json:"listener,omitzero"`
	// ServerName is compared with the SNI of a TLS connection: a name, a
	// wildcard, or empty for every one and for none. Plain routes have none.
	ServerName string  `json:"serverName,omitempty"`
	TLS        TLSMode `json:"tls"`

	// HostOwner is the owner of the server name, as in Rule.
	HostOwner HostOwner `json:"hostOwner,omitzero"`

	Priority int32 `json:"priority,omitempty"`
	// HostRank orders the routes that a listener has for one server name, as in Rule.
	HostRank int32     `json:"hostRank,omitempty"`
	Created  time.Time `json:"created,omitzero"`

	// Policies can be ipFilter and inFlight only.
	Policies []Policy `json:"policies,omitempty"`
	// Backends with a status close the connections of their share.
	Backends []BackendRef `json:"backends,omitempty"`
	Timeouts Timeouts     `json:"timeouts,omitzero"`
}

// TLSMode is how a TCP route treats the encryption of a connection.
type TLSMode string

// The modes of a TCP route.
const (
	// TLSPlain passes every connection on as it is, TLS or not.
	TLSPlain TLSMode = "plain"
	// TLSTerminate decrypts with a certificate of the table.
	TLSTerminate TLSMode = "terminate"
	// TLSPassthrough reads the SNI and passes the bytes on as they are.
	TLSPassthrough TLSMode = "passthrough"
)

// Compare is negative when the route comes before the other one.
func (r *TCPRoute) Compare(other *TCPRoute) int {
	return cmp.Or(
		trueLast(r.HostOwner.Behind, other.HostOwner.Behind),
		cmp.Compare(other.Priority, r.Priority),
		cmp.Compare(plainLast(r), plainLast(other)),
		cmp.Compare(hostClass(r.ServerName), hostClass(other.ServerName)),
		cmp.Compare(other.HostRank, r.HostRank),
		r.Created.Compare(other.Created),
		r.ID.Compare(other.ID),
	)
}

func plainLast(r *TCPRoute) int {
	if r.TLS == TLSPlain {
		return 1
	}
	return 0
}
