package gateway_test

import (
	"slices"
	"strings"
	"testing"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/pkg/features"

	"slipway.dev/slipway/internal/ingress/gateway"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// TestSupportedFeatures: a class has all features of Gateway API but those of meshes, in the
// order of their names; the one that needs Services only with these.
func TestSupportedFeatures(t *testing.T) {
	known := snapshot.New()
	class := &gatewayv1.GatewayClass{Spec: gatewayv1.GatewayClassSpec{ControllerName: gateway.ControllerName}}
	class.Name = "slipway"
	known.Put(class)
	var all []string
	for feature := range features.SetsToNamesSet(features.AllFeatures) {
		if name := string(feature); !strings.HasPrefix(name, "Mesh") {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	for services, want := range map[bool][]string{
		true:  all,
		false: slices.DeleteFunc(slices.Clone(all), func(name string) bool { return name == "GatewayInfrastructure" }),
	} {
		status, ours := gateway.Class(known.View(), "slipway", services)
		var got []string
		for _, feature := range status.SupportedFeatures {
			got = append(got, string(feature.Name))
		}
		if !ours || !slices.Equal(got, want) {
			t.Errorf("with Services: %t; the features are\n%v, and not\n%v", services, got, want)
		}
	}
}
