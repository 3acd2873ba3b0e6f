// Package gittest serves real Git repositories to tests: git-http-backend
// behind net/http, and OpenSSH's sshd. Repositories are created with the git
// command.
//
// Both servers listen on loopback, so that they work in the private network of
// kubetest as well, and end with the test. Commits have fixed authors and
// times, so that the same content gives the same ids.
//
// Where git or sshd are missing, the test fails with the package to install; it
// does not skip. The package belongs in _test.go files only.
package gittest
