// Package gitserver serves bare Git repositories over HTTP on loopback, for
// the user of this machine. Git itself does the work: git-http-backend runs
// as a CGI program behind net/http.
//
// It guarantees that a repository of Create is complete or absent, that
// pushes are serialized, and that each change of a branch or tag is reported
// once, after Git has stored it.
//
// A repository may require a password. Others have no authentication, and it
// therefore rejects what would make that dangerous: a Host header that is not
// loopback, cross-origin requests of web pages, any path except those of fetch
// and push, and hooks, which would execute programs. The caller must listen on
// loopback only.
package gitserver
