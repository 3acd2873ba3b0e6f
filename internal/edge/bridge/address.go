package bridge

import (
	"context"
	"net"
)

type addressKey struct{}

// ends are the two addresses of a connection.
type ends struct{ local, remote net.Addr }

// WithAddresses returns a context that carries the two ends of a connection.
// The conns of requests whose context comes from it have these addresses.
func WithAddresses(ctx context.Context, local, remote net.Addr) context.Context {
	return context.WithValue(ctx, addressKey{}, ends{local, remote})
}

// addressesOf gives the ends of a request's connection. Nobody has to handle
// the case that there are none: the addresses then are those of no machine.
func addressesOf(ctx context.Context) ends {
	if e, ok := ctx.Value(addressKey{}).(ends); ok {
		return e
	}
	return ends{&net.TCPAddr{}, &net.TCPAddr{}}
}
