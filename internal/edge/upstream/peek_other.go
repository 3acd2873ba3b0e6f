//go:build !unix

package upstream

// peek is not implemented here. The proxy retries a request when a reused
// connection is closed before its response.
func peek(int) peerState { return peerQuiet }
