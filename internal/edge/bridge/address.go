package bridge

import (
	"context"
	"net"
)

// addressKey is the context key of ends.
type addressKey struct{}

// ends are the two addresses of a connection.
type ends struct{ local, remote net.Addr }

// WithAddresses returns a context that carries the two ends of a connection.
// The conns of requests whose context comes from it have these addresses.
func WithAddresses(ctx context.Context, local, remote net.Addr) context.Context {
	return context.WithValue(ctx, addressKey{}, ends{local, remote})
}

// addressesOf returns the ends of a request's connection. Without them the addresses
// are empty, so that callers need no special case.
func addressesOf(ctx context.Context) ends {
	if e, ok := ctx.Value(addressKey{}).(ends); ok {
		return e
	}
	return ends{&net.TCPAddr{}, &net.TCPAddr{}}
}
