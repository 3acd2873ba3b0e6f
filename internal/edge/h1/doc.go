// Package h1 reads and writes HTTP/1.1 as a proxy must: it decides where each
// message starts and ends, and it never guesses. Two programs that disagree
// about that let one client's bytes become another client's request, so what
// is malformed or ambiguous is refused, and a forwarded message gets new framing.
//
// A [Head] or [ResponseHead] is parsed once, into offsets over the bytes that
// were read; no strings are made and nothing is allocated on the way. A
// [ForwardPlan] or [ResponsePlan] writes the head for the other side by copying
// ranges. A [Body] follows a body through its framing and returns the bytes to pass
// on. These have no connections: they consume bytes and report when they need more.
// [Reader], [Writer] and [Transfer] join them to a net.Conn,
// with buffers from a pool and a deadline on every wait.
//
// It guarantees:
//   - a message that a Head accepts is read by net/http in the same way: method,
//     target, host, length and body; a fuzz test compares the two;
//   - the result of a parse does not depend on how the bytes were cut into
//     packets, and dripping them costs no more than sending them at once;
//   - memory per message is bounded by [Limits];
//   - a header about the client's identity reaches a backend only from the
//     edge itself or from a trusted peer, and no Connection header removes it.
//
// It refuses: bare LF and bare CR, folded lines, control characters, spaces
// before a colon, repeated or odd Host, Content-Length and Transfer-Encoding,
// both lengths at once, chunk sizes that are not plain hex, CONNECT, HTTP
// versions other than 1.0 and 1.1, and everything package normalize refuses.
// Each refusal is an [httperr.Error]: respond with its status and close
// the connection, because the start of the next message is unknown.
package h1
