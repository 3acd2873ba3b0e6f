package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"slipway.dev/slipway/internal/kube"
)

// With -gateway every Ingress is written as HTTPRoutes of one Gateway, and all phases
// are the same. The Gateway has the address of the plain entry point, so that clients
// are the same too.

// gatewayObjects are the class and the Gateway.
const gatewayObjects = `apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: slipway}
spec: {controllerName: slipway.dev/gateway-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: bench}
spec:
  gatewayClassName: slipway
  addresses: [{value: 127.0.0.1}]
  listeners: [{name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]
`

// gatewayVersion is the version of all kinds that the benchmark writes.
var gatewayVersion = schema.GroupVersion{Group: "gateway.networking.k8s.io", Version: "v1"}

// maxHostnames is the number of host names that a route can have.
const maxHostnames = 16

// defineGateways creates the definitions of Gateway API, of the module that the edge
// is built with, and the Gateway.
func (w *world) defineGateways(ctx context.Context) error {
	module, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api").Output()
	if err != nil {
		return fmt.Errorf("find the definitions of Gateway API: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(module)), "config/crd/standard/gateway.networking.k8s.io_[a-u]*.yaml"))
	if err != nil {
		return err
	}
	target := kube.Target{Namespace: namespaceOf(0), Manager: name}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if _, err := w.Apply(ctx, target, string(text)); err != nil {
			return err
		}
	}
	_, err = w.Apply(ctx, target, gatewayObjects)
	return err
}

// httpRoutes returns the client of HTTPRoutes.
func (w *world) httpRoutes(namespace string) dynamic.ResourceInterface {
	return w.Dynamic.Resource(gatewayVersion.WithResource("httproutes")).Namespace(namespace)
}

// put creates an Ingress, or the routes in its place, and returns the version of the
// last object.
func (w *world) put(ctx context.Context, ingress *networkingv1.Ingress) (string, error) {
	if !w.gateway {
		made, err := w.Client.NetworkingV1().Ingresses(ingress.Namespace).Create(ctx, ingress, metav1.CreateOptions{})
		return made.GetResourceVersion(), err
	}
	version := ""
	for i, object := range routesOf(ingress) {
		if i > 0 {
			object.SetName(fmt.Sprintf("%s-%d", ingress.Name, i))
		}
		made, err := w.httpRoutes(ingress.Namespace).Create(ctx, object, metav1.CreateOptions{})
		if err != nil {
			return "", err
		}
		version = made.GetResourceVersion()
	}
	return version, nil
}

// routesPublished fails until every route has a status.
func (w *world) routesPublished(ctx context.Context) error {
	list, err := w.httpRoutes("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	missing := 0
	for i := range list.Items {
		if parents, _, _ := unstructured.NestedSlice(list.Items[i].Object, "status", "parents"); len(parents) == 0 {
			missing++
		}
	}
	if missing > 0 {
		return fmt.Errorf("%d HTTPRoutes have no status", missing)
	}
	return nil
}

// drop deletes the Ingresses or routes of a namespace that a selector selects.
func (w *world) drop(ctx context.Context, namespace, selector string) error {
	options := metav1.ListOptions{LabelSelector: selector}
	if w.gateway {
		return w.httpRoutes(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, options)
	}
	return w.Client.NetworkingV1().Ingresses(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, options)
}

// routesOf returns the routes in the place of an Ingress, whose hosts all have the same
// path and Service.
func routesOf(ingress *networkingv1.Ingress) []*unstructured.Unstructured {
	backend := ingress.Spec.Rules[0].HTTP.Paths[0].Backend.Service
	var objects []*unstructured.Unstructured
	for chunk := range slices.Chunk(ingress.Spec.Rules, maxHostnames) {
		var hosts []any
		for i := range chunk {
			hosts = append(hosts, chunk[i].Host)
		}
		object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"parentRefs": []any{map[string]any{"name": "bench", "namespace": namespaceOf(0)}},
			"hostnames":  hosts,
			"rules": []any{map[string]any{
				"matches":     []any{map[string]any{"path": map[string]any{"type": "PathPrefix", "value": "/"}}},
				"backendRefs": []any{map[string]any{"name": backend.Name, "port": int64(80)}},
			}},
		}}}
		object.SetGroupVersionKind(gatewayVersion.WithKind("HTTPRoute"))
		object.SetName(ingress.Name)
		object.SetLabels(ingress.Labels)
		objects = append(objects, object)
	}
	return objects
}
