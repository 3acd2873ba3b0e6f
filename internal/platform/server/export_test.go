package server

import (
	"testing"
	"time"
)

// ShortenReads shortens the timeouts for reading a request until the end of a test.
func ShortenReads(t *testing.T, timeout time.Duration) {
	body, discard := bodyTimeout, discardTimeout
	t.Cleanup(func() { bodyTimeout, discardTimeout = body, discard })
	bodyTimeout, discardTimeout = timeout, timeout
}
