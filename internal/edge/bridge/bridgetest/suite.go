package bridgetest

import (
	"net/http"
	"testing"

	"slipway.dev/slipway/internal/edge/bridge"
)

// World is a running server of HTTP/2 or HTTP/3 and a client that is connected
// to it.
type World struct {
	// URL is the base URL of the server, without a path.
	URL    string
	Client *http.Client
	// Major is the major version of the protocol, which every response must
	// have.
	Major int
}

// Start starts a server with a handler and stops it when the test ends. Tests
// do not share servers, so that a broken connection fails one test only.
type Start func(t *testing.T, handler *bridge.Handler) World

// Run runs the suite against a server. Messages come before flow control: a
// failure in the first group usually explains those in the second.
func Run(t *testing.T, start Start) {
	t.Run("requests", func(t *testing.T) { testRequests(t, start) })
	t.Run("refusals", func(t *testing.T) { testRefusals(t, start) })
	t.Run("uploads", func(t *testing.T) { testUploads(t, start) })
	t.Run("responses", func(t *testing.T) { testResponses(t, start) })
	t.Run("interim", func(t *testing.T) { testInterim(t, start) })
	t.Run("broken responses", func(t *testing.T) { testBroken(t, start) })
	t.Run("nethttp", func(t *testing.T) { testNetHTTP(t, start) })
	t.Run("flow at once", func(t *testing.T) { testFlowsAtOnce(t, start) })
	t.Run("large", func(t *testing.T) { testLarge(t, start) })
	t.Run("back pressure down", func(t *testing.T) { testPressureDown(t, start) })
	t.Run("back pressure up", func(t *testing.T) { testPressureUp(t, start) })
	t.Run("early response", func(t *testing.T) { testEarlyResponse(t, start) })
	t.Run("client cancels", func(t *testing.T) { testCancel(t, start) })
	t.Run("upload breaks off", func(t *testing.T) { testBrokenUpload(t, start) })
	t.Run("deadlines", func(t *testing.T) { testDeadlines(t, start) })
	t.Run("panic", func(t *testing.T) { testPanic(t, start) })
}
