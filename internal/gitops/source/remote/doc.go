// Package remote is a client of Git servers over HTTP and SSH: it reads refs,
// fetches packs and pushes. It implements the protocol (version 0 of
// gitprotocol-pack) and runs no program.
//
// Every exchange ends with its context, and reads are bounded. Credentials go
// to the host of the address only: not to a host that a server redirects to,
// and not into errors.
//
// It refuses SSH hosts whose key is not in known_hosts, redirects that leave
// https, and responses that are not Git's. Every error is a *[Failure] with a
// reason that decides about retries, or a *[RejectedError] of a push.
package remote
