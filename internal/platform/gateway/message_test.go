package gateway

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/wire/argocd"
	"slipway.dev/slipway/internal/wire/permission"
)

// Every change of a runtime's API is a unary procedure that the gateway can decode:
// the outcome of a stream would need another way.
func TestChangesAreUnary(t *testing.T) {
	for _, one := range argocd.Procedures() {
		if !one.Rule.Read && (one.Stream || decoders()[one.Name] == nil) {
			t.Errorf("%s is a stream, or is not audited", one.Name)
		}
	}
	for _, procedure := range permission.Procedures() {
		rule, _ := permission.Of(procedure)
		if decoders()[procedure] != nil && methodOf(t, procedure).IsStreamingServer() {
			t.Errorf("%s is a stream", procedure)
		}
		if isRuntime := len(procedure) > 16 && procedure[:16] == "/slipway.runtime"; isRuntime && !rule.Read && !rule.Quiet && decoders()[procedure] == nil {
			t.Errorf("%s is not audited", procedure)
		}
	}
}

// methodOf returns the method of a procedure.
func methodOf(t *testing.T, procedure string) protoreflect.MethodDescriptor {
	t.Helper()
	name := protoreflect.FullName(strings.ReplaceAll(procedure[1:], "/", "."))
	return must.Get(protoregistry.GlobalFiles.FindDescriptorByName(name))(t).(protoreflect.MethodDescriptor)
}
