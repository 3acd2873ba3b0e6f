// Package kubetest runs tests against a real Kubernetes API server, so that no
// test needs a fake.
//
// A package calls Main from its TestMain. All its tests then run in a private
// network namespace with only a loopback interface: every address of PodNetwork
// can be listened on and dialed, HostAddress is the host's own address, and
// nothing reaches the machine's network or another test process. Start returns
// a cluster for one test, Shared one that all tests of the process use.
//
// Nothing outlives the test process, even if it is killed: the kernel kills the
// process in the private network with the one that go test started, and
// clusters stop when their standard input closes.
//
// It never skips. If the kernel permits no private network, or the cluster's
// binary is not built, tests fail with instructions.
package kubetest
