// Package floodtracker remembers the clients whose connections were closed
// because of a flood, so that reconnecting at once does not pay.
//
// The first flood costs a client its connection and most of the limits of its
// next ones: it has reduced limits for a minute. From the third flood within
// that time on the client is temporarily banned: the listener refuses its new
// connections before it reads from them, for a second at first, and for twice
// as long after each further flood, up to a bound. Addresses of private
// networks are never banned, because one of them stands for many clients. A
// client is forgotten a minute after its last flood or ban. When many unknown
// clients flood within a few seconds, the flood is a distributed one: all
// unknown clients are suspects for a while and have reduced limits too.
//
// It promises that memory is bounded, that a lookup costs the same however many
// clients it tracks, and that it costs one atomic load while no client floods.
// It does not detect floods: the caller of RecordFlood does, and calls it only
// for floods, never for the mistakes of an honest client. Callers must not look
// up the address of a proxy that carries the requests of many clients.
package floodtracker
