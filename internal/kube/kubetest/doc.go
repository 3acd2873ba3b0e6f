// Package kubetest runs tests against a real Kubernetes API server, so that
// no test needs a fake of it.
//
// A package calls Main from its TestMain. All its tests then run in a private
// network that only holds the loopback interface: every address of PodNetwork
// can be listened on and dialled, HostAddress stands for the host's own
// address, and nothing reaches the machine's network or another test process.
// Start gives a test a cluster of its own, Shared one that all tests of the
// process use.
//
// It promises that nothing outlives the test process, whatever ends it: the
// process in the private network dies with the one that go test started, and
// clusters stop when their standard input closes.
//
// It refuses to skip. Where the kernel permits no private network, or the
// cluster's binary is not built, tests fail and say what to do.
package kubetest
