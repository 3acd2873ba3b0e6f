package h2_test

import (
	"testing"

	"slipway.dev/slipway/internal/edge/bridge/bridgetest"
	"slipway.dev/slipway/internal/edge/h2"
	"slipway.dev/slipway/internal/must"
)

// TestEarlyEnd: a response without a body to a request that is still coming ends
// after it, so that the client keeps sending; only the status of a gRPC call ends
// with its head, because there is no call without a status.
func TestEarlyEnd(t *testing.T) {
	for kind, ends := range map[string]bool{"text/plain": false, "application/grpc": true, "application/grpc+proto": true} {
		t.Run(kind, func(t *testing.T) {
			s := start(t, h2.Config{Handler: bridgetest.Handler(func(x *bridgetest.Exchange) {
				_ = x.Send("HTTP/1.1 200 OK\r\nContent-Type: " + kind + "\r\nGrpc-Status: 12\r\nContent-Length: 0\r\n\r\n")
			})}, nil)
			p := dial(t, s)
			must.Do(t, p.open(1, false, ":method: POST", "content-type: "+kind))
			if got := p.await(t, "an answer", answered(1)); got.ends != ends {
				t.Errorf("the head ends the stream: %t", got.ends)
			}
			p.await(t, "the end", func(e event) bool { return e.stream == 1 && e.ends })
		})
	}
}
