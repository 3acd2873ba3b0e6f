// Package remote asks Git servers, over HTTP and SSH: which refs they have, and
// for packs of objects. It speaks the protocol itself and runs no program.
//
// It promises that every exchange ends with its context, that no more is read
// than the limits say, and that credentials go to the host of the address only:
// not to a host that a server redirects to, and not into errors.
//
// It refuses SSH hosts whose key is not known, redirects that leave https, and
// answers that are not Git's. Every error is a *[Failure] that says whether to
// try again.
package remote
