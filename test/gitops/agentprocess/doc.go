// Package agentprocess runs the real `slipway agent` for tests that drive it
// from outside: the built binary as a process, Git on one side of it and a
// Kubernetes API on the other.
//
// A Recorder follows what becomes of objects, each event in the order of the API
// server. Trace files tell which programs an agent and its workers tried to execute.
//
// It promises that a process is gone at the end of its test, and that its log is
// shown when the test failed. It refuses to guess: an agent that does not come up
// fails the test with its own words.
package agentprocess
