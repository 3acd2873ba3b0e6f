// Package offender remembers the clients whose connections were ended because
// they flooded, so that to come again at once does not pay.
//
// The first flood costs a client the connection, and most of the budget that the
// next ones have: it is on probation for a minute. From the third within that
// time on it is held off: new connections are refused before anything is read
// from them, for a second at first, and twice as long after each further flood,
// up to a bound. Addresses of private networks are not, because they stand for
// many clients. A minute after the last flood or hold everything is forgotten.
// When many clients that nothing was known of flood within a few seconds, all
// that are new are suspects for a while, and have the small budget too.
//
// It promises that memory is bounded, that a decision costs the same however
// many clients there are, and that nothing is paid while nobody floods. It
// judges nobody: who calls Flooded does, and only for floods, never for what an
// honest client gets wrong. Who has a proxy in front that speaks for many must
// not ask for the proxy's address.
package offender
