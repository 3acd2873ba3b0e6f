package preflight

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// nginxOperators returns the resources of the NGINX Ingress Operator, the
// documented one and that of newer versions, with the path of the option
// (R94).
func nginxOperators() map[schema.GroupVersionResource][]string {
	return map[schema.GroupVersionResource][]string{
		{Group: "k8s.nginx.org", Version: "v1alpha1", Resource: "nginxingresscontrollers"}: {"spec", "reportIngressStatus", "enable"},
		{Group: "charts.nginx.org", Version: "v1alpha1", Resource: "nginxingresses"}:       {"spec", "controller", "reportIngressStatus", "enable"},
	}
}

// enterpriseStatus is R93 and R94: the flag, or the option of the operator,
// which would revert a flag.
func (in *CheckContext) enterpriseStatus(ctx context.Context, view *controllerView, out *Report) {
	operated := false
	for resource, path := range nginxOperators() {
		list, err := in.Cluster.Dynamic.Resource(resource).Namespace(in.ControllerNamespace).List(ctx, metav1.ListOptions{Limit: maxListed})
		// Most clusters do not have the operator's CRDs.
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			continue
		}
		if err != nil {
			out.readError(resource.Resource, err)
			return
		}
		for i := range list.Items {
			operated = true
			in.operatorStatus(resource, path, &list.Items[i], out)
		}
	}
	// Flags of an operated workload are derived from the resource, so they
	// are not checked again.
	if operated {
		return
	}
	for _, one := range view.workloads {
		out.inspect("-report-ingress-status of %s", one)
		in.enterpriseFlag(one, out)
	}
}

// operatorStatus checks the option of an operator resource.
func (in *CheckContext) operatorStatus(resource schema.GroupVersionResource, path []string, object *unstructured.Unstructured, out *Report) {
	subject := named(object.GetKind(), object.GetNamespace(), object.GetName())
	out.inspect("%s of %s", strings.Join(path, "."), subject)
	if enabled, _, err := unstructured.NestedBool(object.Object, path...); err == nil && enabled {
		return
	}
	// The patch has only the missing field.
	change := map[string]any{}
	if err := unstructured.SetNestedField(change, true, path...); err != nil {
		return
	}
	patch, err := json.Marshal(change)
	if err != nil {
		return
	}
	finding := out.fail(subject, strings.Join(path, ".")+" is not true: Ingresses get no address, and their health stays Progressing",
		fmt.Sprintf("kubectl -n %s patch %s.%s %s --type merge -p '%s'", object.GetNamespace(), resource.Resource, resource.Group, object.GetName(), patch))
	finding.Plan = fmt.Sprintf("merge into the %s: %s", subject, patch)
	namespace, name := object.GetNamespace(), object.GetName()
	finding.Apply = func(ctx context.Context) error {
		_, err := in.Cluster.Dynamic.Resource(resource).Namespace(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
		return err
	}
}

// enterpriseFlag checks the flag of a workload.
func (in *CheckContext) enterpriseFlag(one *workload, out *Report) {
	const flag = "report-ingress-status"
	// The flag is off by default in NGINX Enterprise.
	value, given := flagValue(one.program(), flag)
	if !given || value == "false" {
		finding := out.fail(one.String(), "it runs without -"+flag+": Ingresses get no address, and their health stays Progressing", "add the argument -"+flag)
		in.offerArgument(finding, one, flag, "-"+flag+"=true")
		return
	}
	// Either flag determines the reported address.
	for _, source := range []string{"external-service", "ingresslink"} {
		if _, given := flagValue(one.program(), source); given {
			return
		}
	}
	out.note(one.String(), "it reports the external-status-address of its ConfigMap; without that it needs -external-service=SERVICE")
}

// communityStatus checks ingress-nginx: it reports by default, but the
// addresses of its nodes unless a Service is configured.
func (in *CheckContext) communityStatus(view *controllerView, out *Report) {
	for _, one := range view.workloads {
		out.inspect("--update-status and --publish-service of %s", one)
		if value, given := flagValue(one.program(), "update-status"); given && value == "false" {
			finding := out.fail(one.String(), "it runs with --update-status=false: Ingresses get no address, and their health stays Progressing", "remove the argument")
			in.offerArgument(finding, one, "update-status", "--update-status=true")
			continue
		}
		// Without these flags the controller reports the addresses of its
		// nodes.
		published := false
		for _, source := range []string{"publish-service", "publish-status-address"} {
			_, given := flagValue(one.program(), source)
			published = published || given
		}
		if !published && len(view.services) > 0 && !one.hostPorts() {
			out.warn(one.String(), "it has no --publish-service: Ingresses get the addresses of nodes instead of that of the load balancer",
				fmt.Sprintf("add the argument --publish-service=%s/%s", one.namespace, view.services[0].Name))
		}
	}
}

// offerArgument offers to set an argument of a controller: it replaces an
// existing one or appends it.
func (in *CheckContext) offerArgument(finding *Finding, one *workload, flag, argument string) {
	base := fmt.Sprintf("/spec/template/spec/containers/%d/args", one.container)
	step := map[string]any{"op": "add", "path": base + "/-", "value": argument}
	args := one.program().Args
	if len(args) == 0 {
		step = map[string]any{"op": "add", "path": base, "value": []string{argument}}
	}
	// Each argument is evaluated alone, so that a value is not taken for a
	// flag.
	for i := range args {
		single := &corev1.Container{Args: args[i : i+1]}
		if _, given := flagValue(single, flag); given {
			step = map[string]any{"op": "replace", "path": fmt.Sprintf("%s/%d", base, i), "value": argument}
		}
	}
	patch, err := json.Marshal([]any{step})
	if err != nil {
		return
	}
	finding.Plan = fmt.Sprintf("patch the %s: %s (its Pods are replaced; put the argument into its chart or manifest too, or the next upgrade removes it)", one, patch)
	finding.Apply = func(ctx context.Context) error {
		apps := in.Cluster.Client.AppsV1()
		options := metav1.PatchOptions{FieldManager: fieldManager}
		if one.kind == "DaemonSet" {
			_, err := apps.DaemonSets(one.namespace).Patch(ctx, one.name, types.JSONPatchType, patch, options)
			return err
		}
		_, err := apps.Deployments(one.namespace).Patch(ctx, one.name, types.JSONPatchType, patch, options)
		return err
	}
}
