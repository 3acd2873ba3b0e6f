package watch

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/ingress/snapshot"
)

// statusManager is the field manager that writes the status of Ingresses. Of the
// managed fields of an Ingress it is kept whether this one owns some of its
// status, and nothing else.
const (
	statusManager     = "slipway-edge"
	statusSubresource = "status"
)

// trim takes from an object what no route is made of. It changes the object,
// which nobody else has seen, and is the same when done twice.
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
		o.ObjectMeta = bare(&o.ObjectMeta)
	case *unstructured.Unstructured:
		trimResource(o)
	}
}

// trimming is trim in the form that a reflector takes.
func trimming(object any) (any, error) {
	trim(object)
	return object, nil
}

// trimmed is the metadata that routes are made of.
func trimmed(full *metav1.ObjectMeta) metav1.ObjectMeta {
	kept := bare(full)
	kept.UID = full.UID
	kept.Generation = full.Generation
	kept.CreationTimestamp = full.CreationTimestamp
	kept.DeletionTimestamp = full.DeletionTimestamp
	for name, value := range full.Annotations {
		if !snapshot.Annotation(name) {
			continue
		}
		if kept.Annotations == nil {
			kept.Annotations = map[string]string{}
		}
		kept.Annotations[name] = value
	}
	return kept
}

// bare is the metadata that tells which object it is.
func bare(full *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: full.Namespace, Name: full.Name, ResourceVersion: full.ResourceVersion}
}

func ourFields(all []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	for _, entry := range all {
		if entry.Manager == statusManager && entry.Subresource == statusSubresource {
			return []metav1.ManagedFieldsEntry{{Manager: statusManager, Subresource: statusSubresource}}
		}
	}
	return nil
}

func trimSlice(slice *discoveryv1.EndpointSlice) {
	service, labelled := slice.Labels[discoveryv1.LabelServiceName]
	slice.ObjectMeta = trimmed(&slice.ObjectMeta)
	if labelled {
		slice.Labels = map[string]string{discoveryv1.LabelServiceName: service}
	}
	for i := range slice.Endpoints {
		endpoint := &slice.Endpoints[i]
		endpoint.DeprecatedTopology = nil
		if target := endpoint.TargetRef; target != nil {
			// Not its version: it makes an endpoint look changed when only the
			// status of its Pod is.
			endpoint.TargetRef = &corev1.ObjectReference{Kind: target.Kind, Namespace: target.Namespace, Name: target.Name, UID: target.UID}
		}
	}
}

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

func trimResource(resource *unstructured.Unstructured) {
	kept := &unstructured.Unstructured{Object: map[string]any{}}
	kept.SetGroupVersionKind(resource.GroupVersionKind())
	kept.SetNamespace(resource.GetNamespace())
	kept.SetName(resource.GetName())
	kept.SetUID(resource.GetUID())
	kept.SetResourceVersion(resource.GetResourceVersion())
	if spec, has := resource.Object["spec"]; has {
		kept.Object["spec"] = spec
	}
	resource.Object = kept.Object
}

// shape gives a trimmed object the form that the Snapshot has it in.
func shape(kind snapshot.Kind, object any) any {
	switch o := object.(type) {
	case *corev1.Node:
		return factsOf(o)
	case *unstructured.Unstructured:
		// A spec that is no object is as good as none: whoever reads it finds
		// that what it needs is missing.
		spec, _ := o.Object["spec"].(map[string]any)
		return &snapshot.Resource{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), Version: o.GetResourceVersion(), Spec: spec}
	default:
		return object
	}
}

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
			continue // a host name, which no traffic is sent to
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
