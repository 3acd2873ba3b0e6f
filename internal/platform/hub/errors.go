package hub

import "fmt"

// OfflineError reports that the runtime is connected to no replica.
type OfflineError struct{ RuntimeID string }

// Error returns a message that names what to check.
func (e *OfflineError) Error() string {
	return fmt.Sprintf("runtime %s is not connected to the platform; check that its agent runs and reaches the platform", e.RuntimeID)
}

// BusyError reports that a runtime has reached its limit of concurrent
// requests.
type BusyError struct {
	RuntimeID string
	Limit     int
}

// Error returns a message with the limit.
func (e *BusyError) Error() string {
	return fmt.Sprintf("runtime %s has reached its limit of %d concurrent requests; retry later", e.RuntimeID, e.Limit)
}

// RefusedError reports a request that may not pass a tunnel.
type RefusedError struct{ Reason string }

// Error returns the reason.
func (e *RefusedError) Error() string { return "the request may not pass the tunnel: " + e.Reason }
