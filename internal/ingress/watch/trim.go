package watch

import (
	"maps"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/snapshot"
)

// statusManager is the field manager that writes the status of Ingresses. Of the
// managed fields of an Ingress only the fact that it owns a status is kept.
const (
	statusManager     = "slipway-edge"
	statusSubresource = "status"
)

// trim removes the fields of an object that routes do not depend on. It modifies
// the object, which the reflector just decoded and nothing else refers to. It is
// idempotent.
func trim(object any) {
	switch o := object.(type) {
	case *networkingv1.Ingress:
		fields := ourFields(o.ManagedFields)
		o.ObjectMeta = trimmed(&o.ObjectMeta)
		o.ManagedFields = fields
	case *networkingv1.IngressClass:
		o.ObjectMeta = trimmed(&o.ObjectMeta)
	case *corev1.Service:
		o.ObjectMeta = trimmed(&o.ObjectMeta)
		o.Status.Conditions = nil
	case *discoveryv1.EndpointSlice:
		trimSlice(o)
	case *corev1.Node:
		trimNode(o)
	case *metav1.PartialObjectMetadata:
		controller := metav1.GetControllerOf(o)
		uid := o.UID
		o.ObjectMeta = bare(&o.ObjectMeta)
		if o.UID = uid; controller != nil {
			o.OwnerReferences = []metav1.OwnerReference{*controller}
		}
	case *corev1.Namespace:
		labels := o.Labels
		o.ObjectMeta = trimmed(&o.ObjectMeta)
		o.Labels, o.Spec, o.Status = labels, corev1.NamespaceSpec{}, corev1.NamespaceStatus{}
	case *unstructured.Unstructured:
		if o.GroupVersionKind().Group == gatewayv1.GroupName {
			trimGateway(o)
			return
		}
		trimResource(o)
	}
}

// trimming is trim as a cache.TransformFunc.
func trimming(object any) (any, error) {
	trim(object)
	return object, nil
}

// trimmed returns the metadata that routes depend on.
func trimmed(full *metav1.ObjectMeta) metav1.ObjectMeta {
	kept := bare(full)
	kept.UID = full.UID
	kept.Generation = full.Generation
	kept.CreationTimestamp = full.CreationTimestamp
	kept.DeletionTimestamp = full.DeletionTimestamp
	kept.Annotations = ourAnnotations(full.Annotations)
	return kept
}

// ourAnnotations returns the annotations that routes depend on, nil without any. Where
// all of them do, it is the same map.
func ourAnnotations(all map[string]string) map[string]string {
	count := 0
	for name := range all {
		if snapshot.Annotation(name) {
			count++
		}
	}
	switch count {
	case 0:
		return nil
	case len(all):
		return all
	}
	kept := make(map[string]string, count)
	for name, value := range all {
		if snapshot.Annotation(name) {
			kept[name] = value
		}
	}
	return kept
}

// bare returns the metadata that identifies an object and its version.
func bare(full *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: full.Namespace, Name: full.Name, ResourceVersion: full.ResourceVersion}
}

// ourFields returns the managed-fields entry of our status, without its field set.
func ourFields(all []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	for _, entry := range all {
		if entry.Manager == statusManager && entry.Subresource == statusSubresource {
			return []metav1.ManagedFieldsEntry{{Manager: statusManager, Subresource: statusSubresource}}
		}
	}
	return nil
}

// trimSlice keeps the label with the name of the Service, which no other field has.
func trimSlice(slice *discoveryv1.EndpointSlice) {
	labels := slice.Labels
	service, labelled := labels[discoveryv1.LabelServiceName]
	slice.ObjectMeta = trimmed(&slice.ObjectMeta)
	switch {
	case labelled && len(labels) == 1:
		slice.Labels = labels
	case labelled:
		slice.Labels = map[string]string{discoveryv1.LabelServiceName: service}
	}
	for i := range slice.Endpoints {
		endpoint := &slice.Endpoints[i]
		endpoint.DeprecatedTopology = nil
		if target := endpoint.TargetRef; target != nil {
			// Without the resource version: it would make an endpoint differ
			// whenever the status of its Pod changes.
			*target = corev1.ObjectReference{Kind: target.Kind, Namespace: target.Namespace, Name: target.Name, UID: target.UID}
		}
	}
}

// trimNode keeps addresses, readiness, zone and the exclusion from load balancers.
func trimNode(node *corev1.Node) {
	labels := map[string]string{}
	for _, label := range []string{corev1.LabelTopologyZone, corev1.LabelNodeExcludeBalancers} {
		if value, labelled := node.Labels[label]; labelled {
			labels[label] = value
		}
	}
	deleted := node.DeletionTimestamp
	node.ObjectMeta = bare(&node.ObjectMeta)
	node.Labels = labels
	node.DeletionTimestamp = deleted
	node.Spec = corev1.NodeSpec{}
	status := corev1.NodeStatus{Addresses: node.Status.Addresses}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			status.Conditions = []corev1.NodeCondition{{Type: condition.Type, Status: condition.Status}}
		}
	}
	node.Status = status
}

// trimResource keeps identity and spec of a custom object. Of a ConfigMap the spec is
// its data.
func trimResource(resource *unstructured.Unstructured) {
	kept := &unstructured.Unstructured{Object: map[string]any{}}
	kept.SetGroupVersionKind(resource.GroupVersionKind())
	kept.SetNamespace(resource.GetNamespace())
	kept.SetName(resource.GetName())
	kept.SetUID(resource.GetUID())
	kept.SetResourceVersion(resource.GetResourceVersion())
	gvk := resource.GroupVersionKind()
	if snapshot.IsTraefikUnit(snapshot.Kind(gvk.Kind + "." + gvk.Group)) {
		kept.SetCreationTimestamp(resource.GetCreationTimestamp())
		kept.SetDeletionTimestamp(resource.GetDeletionTimestamp())
		annotations := resource.GetAnnotations()
		maps.DeleteFunc(annotations, func(name, _ string) bool { return !snapshot.Annotation(name) })
		kept.SetAnnotations(annotations)
	}
	if spec, has := resource.Object["spec"]; has {
		kept.Object["spec"] = spec
	}
	if resource.GetKind() == string(snapshot.ConfigMap) && gvk.Group == "" {
		if data, has, _ := unstructured.NestedStringMap(resource.Object, "data"); has {
			kept.Object["spec"] = snapshot.SpecOfData(data)
		}
	}
	resource.Object = kept.Object
}

// trimGateway keeps spec and status of an object of Gateway API, and of its metadata
// what routes and status depend on.
func trimGateway(object *unstructured.Unstructured) {
	metadata, _ := object.Object["metadata"].(map[string]any)
	delete(metadata, "managedFields")
	delete(metadata, "labels")
	delete(metadata, "ownerReferences")
	annotations := object.GetAnnotations()
	maps.DeleteFunc(annotations, func(name, _ string) bool { return !snapshot.Annotation(name) })
	object.SetAnnotations(annotations)
}

// gatewayObjectOf decodes an object of Gateway API. A field that does not fit its
// type leaves the rest of the object empty: the API server has checked the types,
// so this is an object of another version.
func gatewayObjectOf(kind snapshot.Kind, object *unstructured.Unstructured) any {
	typed := snapshot.NewGatewayObject(kind)
	if typed == nil {
		return nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
		typed.SetNamespace(object.GetNamespace())
		typed.SetName(object.GetName())
		typed.SetUID(object.GetUID())
	}
	return typed
}

// shape converts a trimmed object to its form in the Snapshot.
func shape(kind snapshot.Kind, object any) any {
	switch o := object.(type) {
	case *corev1.Node:
		return factsOf(o)
	case *metav1.PartialObjectMetadata:
		return ownedOf(kind, o)
	case *unstructured.Unstructured:
		if typed := gatewayObjectOf(kind, o); typed != nil {
			return typed
		}
		// A spec that is no object counts as none: its reader refuses the missing
		// fields.
		spec, _ := o.Object["spec"].(map[string]any)
		return &snapshot.Resource{
			Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), Version: o.GetResourceVersion(), Spec: spec,
			Created: o.GetCreationTimestamp().Time, Deleting: o.GetDeletionTimestamp() != nil, Annotations: o.GetAnnotations(),
		}
	default:
		return object
	}
}

// ownedOf extracts the controller of a Pod or a ReplicaSet.
func ownedOf(kind snapshot.Kind, object *metav1.PartialObjectMetadata) *snapshot.Owned {
	owned := &snapshot.Owned{Kind: kind, Namespace: object.Namespace, Name: object.Name, UID: object.UID}
	if c := metav1.GetControllerOf(object); c != nil {
		owned.Controller = snapshot.Controller{APIVersion: c.APIVersion, Kind: c.Kind, Name: c.Name, UID: c.UID}
	}
	return owned
}

// factsOf extracts the facts of a node. Unlike the node they do not change with each
// heartbeat, so heartbeats end in the mirror.
func factsOf(node *corev1.Node) *snapshot.NodeFacts {
	_, excluded := node.Labels[corev1.LabelNodeExcludeBalancers]
	facts := &snapshot.NodeFacts{Name: node.Name, Zone: node.Labels[corev1.LabelTopologyZone]}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			facts.Ready = condition.Status == corev1.ConditionTrue && node.DeletionTimestamp == nil && !excluded
		}
	}
	for _, address := range node.Status.Addresses {
		parsed, err := netip.ParseAddr(address.Address)
		if err != nil {
			continue // a host name: traffic is sent to IP addresses only
		}
		switch address.Type {
		case corev1.NodeInternalIP:
			facts.Internal = append(facts.Internal, parsed.Unmap())
		case corev1.NodeExternalIP:
			facts.External = append(facts.External, parsed.Unmap())
		}
	}
	return facts
}
