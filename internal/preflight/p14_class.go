package preflight

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/internal/access/mode"
)

// checkIngressClass is P14: the IngressClass exists, its spec.controller is
// known (R87 for ALB), and the controller runs. For the Gateway API it checks
// the Gateways of the route, and for a mesh the ingress gateway.
func checkIngressClass(ctx context.Context, in *CheckContext, out *Report) {
	// The Gateway API has no IngressClass; its Gateways take that place.
	if in.requestedMode() == mode.HTTPRoute {
		in.checkGateways(ctx, out)
		return
	}
	// A tunnel needs no Ingress controller.
	if in.requestedMode() == mode.Tunnel {
		out.skip("the runtime is reached through its tunnel")
		return
	}
	view, err := in.controller()
	if err != nil {
		out.inspect("IngressClasses, and the Deployments, DaemonSets and Services of controllers")
		out.readError("ingressclasses, deployments, daemonsets and services", err)
		return
	}
	if in.requestedMode() == mode.Ingress && !in.evaluateClass(view, out) {
		return
	}
	if in.requestedMode() == mode.Mesh && !in.evaluateMesh(ctx, view, out) {
		return
	}
	in.evaluateWorkloads(view, out)
}

// evaluateClass reports whether the class exists and its controller is known.
func (in *CheckContext) evaluateClass(view *controllerView, out *Report) bool {
	name := in.Settings.Ingress.ClassName
	out.inspect("IngressClass %s", name)
	// The edge's class comes with the chart, so its absence is normal before
	// the installation.
	if view.class == nil && name == ownClass {
		if in.Stage == Before {
			out.note(named("IngressClass", "", name), "it is not there yet: the chart of the runtime brings it, and the edge that serves it")
			return false
		}
		out.fail(named("IngressClass", "", name), "it does not exist, and the chart of the runtime brings it", "upgrade the release with edge.enabled=true")
		return false
	}
	if view.class == nil {
		// Existing classes are listed: a typo is the most common cause.
		found := "the cluster has no IngressClass"
		if len(view.classes) > 0 {
			found = "the cluster has " + shorten(view.classes)
		}
		finding := out.fail(named("IngressClass", "", name), "it does not exist; "+found, "name one that exists with --ingress-class, or install the controller")
		in.offerClass(finding, name)
		return false
	}
	out.inspect("its controller is %s", view.class.Spec.Controller)
	if expected := controllerByID(ALB).Class; name == albClass && view.class.Spec.Controller != expected {
		out.fail(named("IngressClass", "", name), fmt.Sprintf("its controller is %s, and that of AWS is %s: no load balancer is made", view.class.Spec.Controller, expected),
			fmt.Sprintf("the controller of a class cannot change: kubectl delete ingressclass %[1]s, and create it with spec.controller %[2]s", name, expected))
		return false
	}
	if !view.known {
		out.warn(named("IngressClass", "", name), fmt.Sprintf("its controller %s is none that is known", view.class.Spec.Controller),
			"check that it serves Ingresses with WebSockets and writes their status; the checks of the host show whether it works")
		return false
	}
	return true
}

// evaluateMesh looks the Gateway of the mesh up, and reports whether Istio is
// installed. A mesh needs only the URL of the runtime: without a Gateway, and
// without Istio, nothing is missing.
func (in *CheckContext) evaluateMesh(ctx context.Context, view *controllerView, out *Report) bool {
	if in.Gateway == "" {
		if !view.known {
			out.skip("the cluster has no Istio, and no Gateway is named: another mesh serves the URL, see %s", URLResponse)
		}
		return view.known
	}
	namespace, name, qualified := strings.Cut(in.Gateway, "/")
	if !qualified {
		namespace, name = in.Settings.Namespace, in.Gateway
	}
	subject := named("Gateway", namespace, name)
	out.inspect("%s of Istio", subject)
	if !view.known {
		out.fail(subject, "the cluster has no Istio, and so no such Gateway", "install Istio, or leave --gateway out if another mesh serves the URL")
		return false
	}
	version, err := in.istioVersion()
	if err == nil {
		resource := schema.GroupVersionResource{Group: mode.IstioGroup, Version: version, Resource: "gateways"}
		_, err = in.Cluster.Dynamic.Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	}
	if err != nil {
		out.missing(subject, err, "create it, or name another: kubectl get gateways."+mode.IstioGroup+" -A")
	}
	return true
}

// istioVersion returns the version of Istio's API that the cluster prefers, or
// an empty one without Istio: old and new releases have no version in common.
func (in *CheckContext) istioVersion() (string, error) {
	groups, err := in.Cluster.Client.Discovery().ServerGroups()
	if err != nil {
		return "", err
	}
	for _, group := range groups.Groups {
		if group.Name == mode.IstioGroup {
			return group.PreferredVersion.Version, nil
		}
	}
	return "", nil
}

// ownClass is the class of Slipway's edge.
const ownClass = "slipway"

// albClass is the class of AWS ALB, whose name is fixed.
const albClass = "alb"

// offerClass offers to create the class of ALB, whose name is fixed.
func (in *CheckContext) offerClass(finding *Finding, name string) {
	if name != albClass {
		return
	}
	text := fmt.Sprintf("apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata:\n  name: %s\nspec:\n  controller: %s\n", name, controllerByID(ALB).Class)
	finding.Fix = "apply:\n" + text
	finding.Plan = text
	finding.Apply = in.applying(text)
}

// evaluateWorkloads checks that the controller runs.
func (in *CheckContext) evaluateWorkloads(view *controllerView, out *Report) {
	where := "all namespaces"
	if in.ControllerNamespace != "" {
		where = "the namespace " + in.ControllerNamespace
	}
	out.inspect("Deployments and DaemonSets of %s in %s", view.controller.Name, where)
	if len(view.workloads) == 0 {
		fix := "install it, see " + view.controller.Page
		if view.controller.ID == NGINXCommunity {
			fix = in.provider().installHint()
		}
		out.warn(view.controller.Name, "no Deployment or DaemonSet of it is found in "+where, fix)
		return
	}
	// One available workload is sufficient.
	for _, one := range view.workloads {
		out.inspect("%s", one)
		if one.available {
			return
		}
	}
	first := view.workloads[0]
	out.warn(first.String(), "none of its Pods is available", fmt.Sprintf("kubectl -n %s describe %s %s", first.namespace, first.kind, first.name))
}

// applying returns a function that applies a manifest.
func (in *CheckContext) applying(manifest string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := in.Cluster.Apply(ctx, in.target(), manifest)
		return err
	}
}

// gatewayResource is the resource of Gateways. The Gateway API has no typed
// client here.
func gatewayResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "gateways"}
}

// checkGateways checks that the Gateways of an HTTPRoute are programmed.
func (in *CheckContext) checkGateways(ctx context.Context, out *Report) {
	// Every Gateway of the route must be programmed.
	for _, parent := range in.Settings.HTTPRoute.ParentRefs {
		gateway, err := in.gateway(ctx, parent)
		subject := named("Gateway", in.parentNamespace(parent), parent.Name)
		out.inspect("%s", subject)
		if err != nil {
			out.missing(subject, err, "make it, or name another: kubectl get gateways -A")
			continue
		}
		if state := condition(gateway, "Programmed"); state != "True" {
			out.fail(subject, fmt.Sprintf("its condition Programmed is %q", state), "see why: kubectl describe gateway")
		}
	}
}

// parentNamespace returns the namespace of a parentRef, by default that of
// the route.
func (in *CheckContext) parentNamespace(parent mode.ParentRef) string {
	if parent.Namespace != "" {
		return parent.Namespace
	}
	return in.Settings.Namespace
}

// gateway reads the Gateway of a parentRef.
func (in *CheckContext) gateway(ctx context.Context, parent mode.ParentRef) (*unstructured.Unstructured, error) {
	return in.Cluster.Dynamic.Resource(gatewayResource()).Namespace(in.parentNamespace(parent)).Get(ctx, parent.Name, metav1.GetOptions{})
}

// condition returns the status of a condition of an object; empty if absent.
func condition(object *unstructured.Unstructured, kind string) string {
	return findCondition(object, kind).status
}
