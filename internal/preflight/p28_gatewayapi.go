package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/kube"
)

const (
	// gatewayController is the controller in the GatewayClasses of Slipway's edge.
	gatewayController = "slipway.dev/gateway-controller"
	// bundleVersion is the annotation of the definitions with their release.
	bundleVersion = "gateway.networking.k8s.io/bundle-version"

	definitionsFix = "run slipway crds upgrade --only gateway, or apply standard-install.yaml of a release of Gateway API, v1.6 or newer: https://gateway-api.sigs.k8s.io/guides/"
)

// servedRoutes are the resources that the edge serves besides the required ones.
func servedRoutes() []string {
	return []string{"backendtlspolicies", "grpcroutes", "listenersets", "referencegrants", "tcproutes", "tlsroutes", "udproutes"}
}

// requiredGatewayResources are those without which nothing is served.
func requiredGatewayResources() []string { return []string{"gatewayclasses", "gateways", "httproutes"} }

// checkGatewayAPI is P28: the definitions of Gateway API exist in the version that the
// edge reads, its GatewayClass is accepted, and its Gateways have addresses.
func checkGatewayAPI(ctx context.Context, in *CheckContext, out *Report) {
	const unused = "the runtime does not use Gateway API"
	used := in.inRelease("GatewayClass") || in.requestedMode() == mode.HTTPRoute
	missing, err := in.missingDefinitions(ctx, out)
	switch {
	case err != nil:
		out.readError("the definitions of Gateway API", err)
		return
	case missing != "" && in.bringsDefinitions():
		out.skip("the release installs the definitions of Gateway API")
		return
	case missing != "" && !used:
		out.skip(unused)
		return
	case missing != "":
		out.fail(gatewayResource().Group, missing, definitionsFix)
		return
	}
	classes := in.checkGatewayClasses(ctx, out)
	if len(classes) == 0 {
		if !used {
			out.skip(unused)
		}
		return
	}
	in.checkServedRoutes(out)
	in.checkGatewayAddresses(ctx, classes, out)
}

// bringsDefinitions reports whether the release installs the definitions itself.
func (in *CheckContext) bringsDefinitions() bool {
	return in.Stage == Before && slices.ContainsFunc(in.Objects, func(one Object) bool {
		return one.Kind == "CustomResourceDefinition" && strings.HasSuffix(one.Name, "."+gatewayResource().Group)
	})
}

// missingDefinitions returns what the cluster lacks of the definitions that everything
// needs; empty if it has them.
func (in *CheckContext) missingDefinitions(ctx context.Context, out *Report) (string, error) {
	group, version := gatewayResource().Group, gatewayResource().Version
	out.inspect("the definitions of %s", group)
	versions, err := in.gatewayVersions()
	switch {
	case err != nil:
		return "", err
	case len(versions) == 0:
		return "the cluster does not have its definitions", nil
	case !slices.Contains(versions, version):
		return fmt.Sprintf("the cluster serves %s, and the edge reads %s", strings.Join(versions, ", "), version), nil
	}
	// The release is for people: what counts are the kinds and versions.
	if found, err := in.Cluster.Metadata.Resource(kube.DefinitionResource()).Get(ctx, "gateways."+group, metav1.GetOptions{}); err == nil && found.Annotations[bundleVersion] != "" {
		out.inspect("release %s of it", found.Annotations[bundleVersion])
	}
	lost, err := in.undefined(requiredGatewayResources())
	if err != nil || len(lost) == 0 {
		return "", err
	}
	return "the cluster does not define " + strings.Join(lost, ", ") + " in " + version, nil
}

// gatewayVersions returns the versions of Gateway API that the cluster serves.
func (in *CheckContext) gatewayVersions() ([]string, error) {
	groups, err := in.Cluster.Client.Discovery().ServerGroups()
	if err != nil {
		return nil, err
	}
	var versions []string
	for _, group := range groups.Groups {
		if group.Name == gatewayResource().Group {
			for _, one := range group.Versions {
				versions = append(versions, one.Version)
			}
		}
	}
	return versions, nil
}

// undefined returns those of the resources that the cluster does not define in the version
// that the edge reads.
func (in *CheckContext) undefined(names []string) ([]string, error) {
	list, err := in.Cluster.Client.Discovery().ServerResourcesForGroupVersion(gatewayResource().GroupVersion().String())
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(names, func(name string) bool {
		return slices.ContainsFunc(list.APIResources, func(one metav1.APIResource) bool { return one.Name == name })
	}), nil
}

// checkServedRoutes reports kinds that the edge could serve and the cluster does not
// define.
func (in *CheckContext) checkServedRoutes(out *Report) {
	lost, err := in.undefined(servedRoutes())
	if err != nil {
		out.readError("the definitions of Gateway API", err)
		return
	}
	if len(lost) > 0 {
		out.warn(gatewayResource().Group, "the cluster does not define "+strings.Join(lost, ", ")+" in "+gatewayResource().Version+", which the edge could serve", definitionsFix)
	}
}

// checkGatewayClasses checks that the GatewayClasses of the edge are accepted, and returns
// their names.
func (in *CheckContext) checkGatewayClasses(ctx context.Context, out *Report) []string {
	out.inspect("GatewayClasses with the controller %s", gatewayController)
	list, err := in.Cluster.Dynamic.Resource(gatewayResource().GroupVersion().WithResource("gatewayclasses")).List(ctx, metav1.ListOptions{Limit: maxListed})
	if err != nil {
		out.readError("gatewayclasses", err)
		return nil
	}
	var classes []string
	for i := range list.Items {
		class := &list.Items[i]
		if controller, _, _ := unstructured.NestedString(class.Object, "spec", "controllerName"); controller != gatewayController {
			continue
		}
		classes = append(classes, class.GetName())
		accepted := findCondition(class, "Accepted")
		switch {
		case accepted.status == "True":
		case accepted.status == "False":
			out.fail(named("GatewayClass", "", class.GetName()), "it is not accepted: "+accepted.message, "change what the message names")
		default:
			out.pending(named("GatewayClass", "", class.GetName()), "no edge has accepted it", "enable edge.gatewayAPI of the runtime, and see whether the Pods of the edge are ready")
		}
	}
	if len(classes) == 0 && in.inRelease("GatewayClass") && in.Stage == After {
		out.fail("GatewayClass", "no GatewayClass has the controller "+gatewayController, in.reapplyHint())
	}
	return classes
}

// checkGatewayAddresses reports Gateways of the edge that have no address.
func (in *CheckContext) checkGatewayAddresses(ctx context.Context, classes []string, out *Report) {
	out.inspect("addresses of their Gateways")
	list, err := in.Cluster.Dynamic.Resource(gatewayResource()).List(ctx, metav1.ListOptions{Limit: maxListed})
	if err != nil {
		out.readError("gateways", err)
		return
	}
	for i := range list.Items {
		gateway := &list.Items[i]
		class, _, _ := unstructured.NestedString(gateway.Object, "spec", "gatewayClassName")
		programmed := findCondition(gateway, "Programmed")
		if !slices.Contains(classes, class) || programmed.status == "True" {
			continue
		}
		if programmed.reason == "AddressNotAssigned" || programmed.reason == "AddressNotUsable" {
			out.warn(named("Gateway", gateway.GetNamespace(), gateway.GetName()), programmed.message,
				"set edge.gatewayAPI.serviceType, so that each Gateway gets a Service, or add addresses to edge.gatewayAPI.addresses that the machine of the edge has, or change spec.addresses of the Gateway")
		}
	}
}

// conditionState is a condition of an object; zero if it has none.
type conditionState struct{ status, reason, message string }

// findCondition returns a condition of an object.
func findCondition(object *unstructured.Unstructured, kind string) conditionState {
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, each := range list {
		if one, ok := each.(map[string]any); ok && one["type"] == kind {
			status, _ := one["status"].(string)
			reason, _ := one["reason"].(string)
			message, _ := one["message"].(string)
			return conditionState{status, reason, message}
		}
	}
	return conditionState{}
}
