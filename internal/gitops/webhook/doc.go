// Package webhook receives events of pushes and pull requests from Git hosts: GitHub, GitHub
// Enterprise, GitLab, Bitbucket Cloud, Bitbucket Data Center and Gitea.
//
// A request is authenticated before it is parsed. Until then only the headers
// are read, for the host that it claims to come from, and the body is bounded
// bytes with a signature over them. The result is a [Push]: a trigger to fetch
// the repository. Nothing else in a request is trusted, so that a replayed
// request does no harm.
//
// Memory, time and the requests of one source are bounded, and no body makes it
// panic. A Push without paths may touch everything: [Touches] never misses a
// change that the host reported.
//
// It refuses hosts without a secret, signatures by SHA-1, and the UUID of a
// Bitbucket Cloud webhook in the place of a signature, because it is visible in
// every request.
package webhook
