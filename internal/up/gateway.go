package up

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/api/gatewayapi"
	"slipway.dev/slipway/internal/kube"
)

const (
	// gatewayPort is the port of the Gateway: what users type.
	gatewayPort = 8000
	// gatewayPool has the addresses for Gateways of the user. That of slipway up
	// requests the last one, so that names below localhost lead to it.
	gatewayPool = `["127.0.0.16/28", "127.0.0.1"]`
)

// gatewayObjects are the GatewayClass of the edge, and a Gateway for the routes of all
// namespaces. They belong to the edge and not to the demo, as in a cluster where
// a team provides the Gateway and others attach their routes.
const gatewayObjects = `apiVersion: v1
kind: Namespace
metadata: {name: infra}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: slipway}
spec: {controllerName: slipway.dev/gateway-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: public, namespace: infra}
spec:
  gatewayClassName: slipway
  addresses: [{type: IPAddress, value: 127.0.0.1}]
  listeners: [{name: http, port: %d, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]
`

// routeResource is the resource of HTTPRoutes.
var routeResource = schema.GroupVersionResource{Group: gatewayapi.Group, Version: "v1", Resource: "httproutes"}

// installGatewayKinds creates the definitions of Gateway API that are missing, and
// replaces older ones. Newer ones, which the user has installed, stay.
func installGatewayKinds(ctx context.Context, cluster *kube.Cluster) error {
	all, err := gatewayapi.Definitions()
	if err != nil {
		return err
	}
	found, err := cluster.Metadata.Resource(kube.DefinitionResource()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the CustomResourceDefinitions: %w", err)
	}
	live := map[string]map[string]string{}
	for i := range found.Items {
		live[found.Items[i].Name] = found.Items[i].Annotations
	}
	var missing strings.Builder
	for _, definition := range all {
		if annotations, exists := live[definition.Name]; !exists || definition.Replaces(annotations) {
			missing.Write(definition.Text)
			missing.WriteString("\n---\n")
		}
	}
	if missing.Len() == 0 {
		return nil
	}
	_, err = cluster.Define(ctx, kube.Target{Manager: upOwner}, missing.String())
	return err
}

// provideGateway applies the Gateway, whose port follows --port-offset.
func (s *scene) provideGateway(ctx context.Context) error {
	objects := fmt.Sprintf(gatewayObjects, gatewayPort+s.options.PortOffset)
	if _, err := s.cluster.Apply(ctx, kube.Target{Manager: upOwner}, objects); err != nil {
		return fmt.Errorf("make the Gateway: %w", err)
	}
	return nil
}

// demoRouteHost returns the host of the demo's HTTPRoute, empty if there is none: the
// user has deleted it, or the repository is older than it.
func demoRouteHost(ctx context.Context, cluster *kube.Cluster) (string, error) {
	found, err := cluster.Dynamic.Resource(routeResource).Namespace(demoName).Get(ctx, demoName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the HTTPRoute of the demo: %w", err)
	}
	return routeHost(found), nil
}

// routeHost returns the first host name of an HTTPRoute that a user could request.
func routeHost(route *unstructured.Unstructured) string {
	names, _, _ := unstructured.NestedStringSlice(route.Object, "spec", "hostnames")
	for _, name := range names {
		if !strings.HasPrefix(name, "*") {
			return name
		}
	}
	return ""
}
