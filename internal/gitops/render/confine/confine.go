// Package confine removes from a process what a render does not need: other
// programs, files, the network, most of its memory and CPU time.
//
// It returns the protections that the system does not support. Confinement
// cannot be undone, so that it is for a process that does nothing else. It
// refuses nothing: without any protection a worker still renders, with the
// limits that the renderer enforces from outside.
package confine

import (
	"errors"
	"net/http"
	"runtime/debug"
)

// Limits are how much is left.
type Limits struct {
	// MemoryBytes is what the process should stay below. The garbage collector
	// works harder as it comes near, and a little above it the process ends.
	MemoryBytes int64
	// CPUSeconds is how much CPU time the process has in its life.
	CPUSeconds int64
}

// State is what is in force.
type State struct {
	// Missing are the protections that the system does not permit.
	Missing    []string
	cpuSeconds int64
}

// maxStack bounds what a function that calls itself without end takes.
const maxStack = 64 << 20

// Apply takes away everything that it can.
func Apply(limits Limits) State {
	if limits.MemoryBytes > 0 {
		debug.SetMemoryLimit(limits.MemoryBytes / 4 * 3)
	}
	debug.SetMaxStack(maxStack)
	http.DefaultTransport = noNetwork{}
	http.DefaultClient = &http.Client{Transport: noNetwork{}}
	return State{Missing: apply(limits), cpuSeconds: limits.CPUSeconds}
}

// Exhausted reports whether half of the CPU time is used, so that the process
// should be replaced before the next render.
func (s State) Exhausted() bool {
	return s.cpuSeconds > 0 && usedCPUSeconds() > s.cpuSeconds/2
}

// errNoNetwork is the error of all HTTP requests in a worker. It is the second
// line of defence: engines are not supposed to send any.
var errNoNetwork = errors.New("nothing is fetched while rendering")

// noNetwork is a transport to nowhere.
type noNetwork struct{}

// RoundTrip fails.
func (noNetwork) RoundTrip(*http.Request) (*http.Response, error) { return nil, errNoNetwork }
