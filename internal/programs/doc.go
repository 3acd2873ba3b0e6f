// Package programs runs programs as processes of tests and benchmarks, most of
// them the built slipway: each with its log, its output and the addresses of
// its servers. It is the only package that starts, watches and stops them.
//
// A process ends with its test, even if the test binary is killed, and its log
// is printed if the test failed. The package has no knowledge of what the
// processes are for.
//
// It is for tests only.
package programs
