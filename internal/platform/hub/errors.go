package hub

import (
	"fmt"

	"slipway.dev/slipway/api/refusal"
)

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

// notAllowed returns the *refusal.Refusal of a request that may not pass a
// tunnel.
func notAllowed(why string) error {
	return refusal.New("", refusal.NotAllowed, "the request may not pass the tunnel: %s", why)
}
