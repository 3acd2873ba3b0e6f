// Package agentprocess runs the real `slipway agent` for tests that drive it
// from outside: the built binary as a process, Git on one side and a Kubernetes
// API on the other.
//
// A Recorder watches objects and keeps every event in the order of the API
// server. Trace files record the programs that an agent and its workers tried
// to execute.
//
// A process is gone at the end of its test, and its log is printed if the test
// failed. An agent that does not start fails the test with its log; nothing is
// retried.
package agentprocess
