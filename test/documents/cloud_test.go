package documents

import (
	"context"
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/access/mode"
)

// beCloud gives Services of the type LoadBalancer an address, as a cloud does, and
// writes the status of Ingresses, as the controllers of others do that run nowhere here.
// Ours writes its own.
func (n *node) beCloud(ctx context.Context) error {
	services, err := n.w.cluster.Client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	ingresses, err := n.w.cluster.Client.NetworkingV1().Ingresses("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var problems []error
	for _, service := range services.Items {
		if service.Spec.Type != corev1.ServiceTypeLoadBalancer || len(service.Status.LoadBalancer.Ingress) > 0 {
			continue
		}
		to := corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: balancerAddress().String()}}}}
		problems = append(problems, n.patch(ctx, func(body []byte) error {
			_, err := n.w.cluster.Client.CoreV1().Services(service.Namespace).Patch(ctx, service.Name, types.MergePatchType, body, metav1.PatchOptions{}, "status")
			return err
		}, to))
	}
	for _, ingress := range ingresses.Items {
		class := ingress.Spec.IngressClassName
		if class == nil || *class == "slipway" || len(ingress.Status.LoadBalancer.Ingress) > 0 {
			continue
		}
		to := networkingv1.IngressLoadBalancerIngress{IP: balancerAddress().String()}
		if *class == "alb" {
			to = networkingv1.IngressLoadBalancerIngress{Hostname: balancerName}
		}
		problems = append(problems, n.patch(ctx, func(body []byte) error {
			_, err := n.w.cluster.Client.NetworkingV1().Ingresses(ingress.Namespace).Patch(ctx, ingress.Name, types.MergePatchType, body, metav1.PatchOptions{}, "status")
			return err
		}, networkingv1.IngressStatus{LoadBalancer: networkingv1.IngressLoadBalancerStatus{Ingress: []networkingv1.IngressLoadBalancerIngress{to}}}))
	}
	return errors.Join(append(problems, n.takeRoutes(ctx))...)
}

// takeRoutes writes that a Gateway has taken the HTTPRoute of the runtime.
func (n *node) takeRoutes(ctx context.Context) error {
	routes := n.w.cluster.Dynamic.Resource(gatewayResource("httproutes"))
	found, err := routes.List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil // there is no Gateway API
	}
	if err != nil {
		return err
	}
	for _, route := range found.Items {
		if _, taken, _ := unstructured.NestedSlice(route.Object, "status", "parents"); taken {
			continue
		}
		const status = `{"status": {"parents": [{"parentRef": {"name": "public", "namespace": "infra"}, "controllerName": "example.com/gateway",
			"conditions": [{"type": "Accepted", "status": "True"}, {"type": "ResolvedRefs", "status": "True"}]}]}}`
		_, err := routes.Namespace(route.GetNamespace()).Patch(ctx, route.GetName(), types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status")
		if apierrors.IsNotFound(err) {
			// Without a subresource for it the status is a part of the object.
			_, err = routes.Namespace(route.GetNamespace()).Patch(ctx, route.GetName(), types.MergePatchType, []byte(status), metav1.PatchOptions{})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// routed reports whether an object of the cluster leads a request to the runtime's
// router, as the controller of the object would decide.
func (w *world) routed(ctx context.Context, host, path string) bool {
	ingresses, err := w.cluster.Client.NetworkingV1().Ingresses("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return false
	}
	for _, one := range ingresses.Items {
		for _, rule := range one.Spec.Rules {
			if rule.Host == host && rule.HTTP != nil && slices.ContainsFunc(rule.HTTP.Paths, func(p networkingv1.HTTPIngressPath) bool {
				return strings.HasPrefix(path, p.Path) && p.Backend.Service.Name == mode.RouterService
			}) {
				return true
			}
		}
	}
	for _, kind := range []routeKind{
		{virtualServices(), "hosts", "http", []string{"match", "uri", "prefix"}},
		{gatewayResource("httproutes"), "hostnames", "rules", []string{"matches", "path", "value"}},
	} {
		found, err := w.cluster.Dynamic.Resource(kind.resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			continue // the cluster has no such kind
		}
		if slices.ContainsFunc(found.Items, func(one unstructured.Unstructured) bool { return kind.leads(one, host, path) }) {
			return true
		}
	}
	return false
}

// routeKind is a kind of others with routes: where its specification has hosts and
// rules, and where a rule has a prefix.
type routeKind struct {
	resource     schema.GroupVersionResource
	hosts, rules string
	prefix       []string
}

// leads reports whether an object has a rule for a host and a path.
func (k routeKind) leads(object unstructured.Unstructured, host, path string) bool {
	names, _, _ := unstructured.NestedStringSlice(object.Object, "spec", k.hosts)
	list, _, _ := unstructured.NestedSlice(object.Object, "spec", k.rules)
	for _, rule := range list {
		each, _, _ := unstructured.NestedSlice(rule.(map[string]any), k.prefix[0])
		for _, match := range each {
			text, _, _ := unstructured.NestedString(match.(map[string]any), k.prefix[1:]...)
			if text != "" && strings.HasPrefix(path, text) && slices.Contains(names, host) {
				return true
			}
		}
	}
	return false
}

// virtualServices are those of Istio.
func virtualServices() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1alpha3", Resource: "virtualservices"}
}
