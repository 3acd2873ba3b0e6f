// Package datagram relays UDP between clients and backends.
//
// The datagrams of one client address are a flow. Each flow has a socket of its own to
// its backend, so that a response finds its client by the socket that it comes to, and
// the backend sees a client as one peer. It ends when no datagram has come either way
// for a while, or when its backend leaves the table: an address that another Pod takes
// over must not get datagrams that were meant for the one before.
//
// The address of a client is not proven, so the flows of a relay are bounded. At the
// limit a new client takes the place of the flow that is worth least, see eviction.go,
// so that forged addresses keep out neither clients that have a flow nor new ones. A
// response is sent only to the address that a datagram came from, and the relay adds
// nothing to it; a backend that responds with more than it got can be misused for
// amplification here as elsewhere.
package datagram
