// Package edgeprocess runs the real `slipway edge` for tests that drive it from
// outside: the built binary, a table in a file, real sockets.
//
// Main builds the binary once for a package's tests, with the flags of make, so
// that nothing is compiled twice. The variable EDGE_UNDER_TEST names another
// binary to use, for example one that was broken on purpose to see the tests
// fail.
//
// It promises that the process is gone at the end of its test, that its log is
// shown when the test failed, and that no goroutine is left behind. It refuses
// to guess: an edge that does not come up fails the test with its own words.
package edgeprocess
