// Package webhook hears from Git hosts that something was pushed: GitHub,
// GitHub Enterprise, GitLab, Bitbucket Cloud, Bitbucket Data Center and Gitea.
//
// A request is worth nothing until its sender has shown that it knows the
// secret. Before that, its headers tell which host it claims to be and its body
// is bytes: it is bounded, and the signature is checked over it as it came. Only
// then is it parsed. What comes of it is a [Push], and whoever is told looks at
// Git: nothing of a request is believed but that it is time to look. So a
// request that is sent again does no harm.
//
// It promises that memory, time and requests of one source are bounded, that no
// body makes it panic, and that a Push without paths is one that may touch
// everything: [Touches] never misses a change that the host told of.
//
// It refuses hosts without a secret, signatures by SHA-1, and the identity of a
// Bitbucket Cloud webhook in the place of a signature: everybody who sees one
// request knows it.
package webhook
