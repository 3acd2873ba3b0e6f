// Package edgeprocess runs the real `slipway edge` for tests that drive it from
// outside: the built binary, a routing table in a file, real sockets.
//
// Main builds the binary with package binary.
//
// The process is gone at the end of its test, its log is printed if the test
// failed, and no goroutine is left behind. An edge that does not start fails
// the test with its log; nothing is retried.
package edgeprocess
