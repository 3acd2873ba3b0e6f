package eventloop

import "net"

// Of returns the connection of an event loop that has the socket of a connection, also below
// TLS; nil if none has.
func Of(conn net.Conn) *Conn {
	if own, ok := conn.(*Conn); ok {
		return own
	}
	if looped, ok := BelowTLS(conn).(interface{ Loop() *Conn }); ok {
		return looped.Loop()
	}
	return nil
}

// Detach takes the socket of a connection out of its event loop, if one has it; see
// [Conn.Detach].
func Detach(conn net.Conn) error {
	if looped, ok := BelowTLS(conn).(interface{ Detach() error }); ok {
		return looped.Detach()
	}
	return nil
}

// BelowTLS is the connection that TLS uses, or the connection itself.
func BelowTLS(conn net.Conn) net.Conn {
	if secured, ok := conn.(interface{ NetConn() net.Conn }); ok {
		return secured.NetConn()
	}
	return conn
}
