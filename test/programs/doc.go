// Package programs runs the built slipway as processes of a test: a platform,
// agents, an edge, each with its log, its output and the addresses of its
// servers.
//
// A process ends with its test, even if the test binary is killed, and its log
// is printed if the test failed. The package has no knowledge of what the
// processes are for.
//
// It is for tests only.
package programs
