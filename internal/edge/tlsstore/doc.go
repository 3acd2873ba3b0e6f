// Package tlsstore chooses the certificate and the options of a TLS handshake.
//
// An [Index] has every certificate and every option at one moment. [Build]
// makes a complete one, and reuses the parsed certificates of the previous one;
// [Index.Change] makes it from the previous one, at the cost of the
// certificates that change. [Store.Swap] replaces it with one pointer. A
// handshake takes two map lookups, independent of the number of certificates
// and of the name in SNI.
//
// It promises:
//   - an invalid certificate or option is a [Problem] with a reason, and
//     affects only the hosts that need it;
//   - a host whose options are refused is not served, instead of being served
//     without them;
//   - a host is served only on connections that were made with its options: the
//     proxy checks [Store.Verdict] for every request, because SNI and Host may
//     differ, and because options may change while a connection is open;
//   - sessions resume after a swap and on other replicas that have the same
//     ticket keys, and never under other options than they were made with;
//   - private keys and ticket keys are a type that redacts itself in logs.
//
// It refuses IP addresses and everything else that is no DNS name in SNI: such
// clients get the default certificate and the default options. It does not
// fetch certificates, staple OCSP responses or check revocation.
package tlsstore
