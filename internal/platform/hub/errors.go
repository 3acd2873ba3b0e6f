package hub

import "fmt"

// OfflineError says that no replica has a connection of the runtime.
type OfflineError struct{ RuntimeID string }

// Error says what to do.
func (e *OfflineError) Error() string {
	return fmt.Sprintf("runtime %s is not connected to the platform; see whether its agent runs and reaches the platform", e.RuntimeID)
}

// BusyError says that a runtime has as many requests as it may have.
type BusyError struct {
	RuntimeID string
	Limit     int
}

// Error says what to do.
func (e *BusyError) Error() string {
	return fmt.Sprintf("runtime %s has %d requests running, which is the limit; try again when some have ended", e.RuntimeID, e.Limit)
}

// RefusedError is a request that does not go through a tunnel.
type RefusedError struct{ Reason string }

// Error says why.
func (e *RefusedError) Error() string { return "the request does not go through a tunnel: " + e.Reason }
