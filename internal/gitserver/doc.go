// Package gitserver serves one bare Git repository over HTTP, for the person
// who sits at this machine. Git itself does the work: its git-http-backend runs
// behind net/http.
//
// It promises that a repository that Create has made is complete or not there,
// that pushes come one after the other, and that each change of a branch or tag
// is told once, after Git has stored it.
//
// It has no credentials, and refuses what would make that dangerous: a name of
// the machine that is not loopback, a request of a web page, any address but
// those of fetching and pushing, and hooks, which would be programs. The caller
// has to listen on loopback only.
package gitserver
