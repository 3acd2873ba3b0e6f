// Package programs runs the built slipway as processes of a test: a platform, agents,
// an edge, each with its log, what it printed, and where its servers listen.
//
// It promises that a process ends with its test, whatever ends the test, and that its
// log is shown when the test failed. It knows nothing of what the processes are for.
//
// It is for tests only.
package programs
