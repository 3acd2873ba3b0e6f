// Package edgeprocess runs the real `slipway edge` for tests that drive it from
// outside: the built binary, a table in a file, real sockets.
//
// Main has the binary of package binary tested.
//
// It promises that the process is gone at the end of its test, that its log is
// shown when the test failed, and that no goroutine is left behind. It refuses
// to guess: an edge that does not come up fails the test with its own words.
package edgeprocess
