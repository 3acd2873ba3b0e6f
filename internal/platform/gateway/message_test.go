package gateway

import (
	"testing"

	"slipway.dev/slipway/internal/wire/permission"
)

// Every change of a runtime's API is a unary procedure that the gateway can decode:
// the outcome of a stream would need another way.
func TestChangesAreUnary(t *testing.T) {
	for procedure, decoder := range decoders() {
		if decoder.method.IsStreamingClient() || decoder.method.IsStreamingServer() {
			t.Errorf("%s is a stream", procedure)
		}
	}
	for _, procedure := range permission.Procedures() {
		rule, _ := permission.Of(procedure)
		if isRuntime := len(procedure) > 16 && procedure[:16] == "/slipway.runtime"; isRuntime && !rule.Read && !rule.Quiet && decoders()[procedure] == nil {
			t.Errorf("%s is not audited", procedure)
		}
	}
}
