// Package smuggling proves that no client can hide a request in another one: the
// edge and what stands behind it never read the same bytes in two ways.
//
// A generator of our own makes requests that are malformed, ambiguous or merely
// odd, several hundred of them. Each is sent to the real edge with an honest
// canary request behind it on the same connection, once for each backend: Go's
// net/http, nginx and Node. Between the edge and a backend stands a tap that
// keeps what the edge wrote. Every backend reports each request that it
// believes to have received. After all of it, for each case:
//
//   - what the edge wrote is plain HTTP/1.1 that has one reading only;
//   - the backend received exactly what the edge wrote: the same number of
//     requests, with the same method, target, host and body;
//   - the client got one response for each of them, its own, in order;
//   - what the edge refused reached no backend as a whole request, and nothing that
//     came after it on the connection was served;
//   - the canary was seen at most once, and only as the request that it is;
//   - all three backends were sent the same.
//
// The same is done for HTTP/2, with frames and header blocks made by hand.
// TestPotency sends the cases to the backends without an edge and requires that
// these disagree about many of them: a harmless corpus proves nothing.
//
// SMUGGLING_RANDOM=n adds n cases that combine two mutations at random, 300
// without it, and SMUGGLING_SEED chooses which. nginx and Node have to be installed; there is
// no skipping.
package smuggling

import (
	"testing"

	"slipway.dev/slipway/test/conformance/edgeprocess"
)

func TestMain(m *testing.M) { edgeprocess.Main(m) }
