package ingress

import (
	"os"
	"testing"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/conformance/edgeprocess"
)

type (
	seat    = edgeprocess.Seat
	replica = edgeprocess.Replica
)

// signal sends a signal to the process of a replica.
func signal(t *testing.T, r *replica, signal os.Signal) {
	t.Helper()
	must.Do(t, r.Signal(signal))
}

// memory is the resident set of the process of a replica, in bytes.
func memory(t *testing.T, r *replica) int64 {
	t.Helper()
	memory := must.Get(programs.ReadMemory(r.PID()))(t)
	return memory.Resident
}
