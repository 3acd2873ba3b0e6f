package upstream

import (
	"errors"
	"net"
)

// errUDPName is why a backend with a host name gets no datagrams: it would have to be
// resolved for each client, while the datagrams of all others wait.
var errUDPName = errors.New("the backend is an external name; a UDP route needs endpoints with addresses")

// DialUDP returns a socket that is connected to the endpoint.
func (l *Lease) DialUDP() (*net.UDPConn, error) {
	e := l.endpoint
	if e == nil {
		return nil, errLeaseEnded
	}
	if e.location.host != "" {
		return nil, &ConnectError{Address: e.address, Err: errUDPName}
	}
	socket, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(e.location.address))
	if err != nil {
		return nil, &ConnectError{Address: e.address, Err: err}
	}
	return socket, nil
}

// Removed reports whether the endpoint has left its backend, or the backend the table.
func (e *Endpoint) Removed() bool { return e.removed.Load() }
