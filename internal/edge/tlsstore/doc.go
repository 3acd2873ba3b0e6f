// Package tlsstore answers the two questions of a TLS handshake: which
// certificate is shown, and under which options the client is let in.
//
// An [Index] holds every certificate and every option of one moment. [Build]
// makes it completely, with the parsed certificates of the previous one;
// [Index.Change] makes it from the previous one, at the cost of the
// certificates that change. [Store.Swap] puts it in place with one pointer. A
// handshake takes two map lookups, whatever the number of certificates and
// whatever name is asked for.
//
// It promises:
//   - a broken certificate or option is a [Problem] with a reason, and hurts
//     nothing but the hosts that need it;
//   - a host whose options were refused is not served, instead of being served
//     without them;
//   - a host is served only on connections that were made with its options:
//     [Store.Verdict] is asked for every request, because SNI and Host may
//     differ, and because options may change while a connection is open;
//   - sessions resume after a swap and on other replicas that have the same
//     ticket keys, and never under other options than they were made with;
//   - private keys and ticket keys are a type that no log shows.
//
// It refuses IP addresses and every other thing that is no DNS name in SNI:
// such clients get the default certificate and the default options. It does
// not fetch certificates, staple OCSP answers or check revocation.
package tlsstore
