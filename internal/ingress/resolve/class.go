package resolve

import (
	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/internal/ingress/snapshot"
)

// ControllerName is what spec.controller of an IngressClass says when its
// Ingresses are ours.
const ControllerName = "slipway.dev/ingress-controller"

// classAnnotation is how a class was named before spec.ingressClassName.
const classAnnotation = "kubernetes.io/ingress.class"

// ours decides whether an Ingress is served here. The default class of a
// cluster is not read: the API server writes it into an Ingress that is made
// without one, and one that has none since then has none on purpose.
func ours(view *snapshot.View, object *networkingv1.Ingress, options Options) bool {
	if object.Spec.IngressClassName == nil {
		return oursByAnnotation(object, options)
	}
	name := *object.Spec.IngressClassName
	if options.NoClassLookup || options.NoClusterScope {
		return false
	}
	if options.IngressClass != "" && name != options.IngressClass {
		return false
	}
	class := view.Class(name)
	if class == nil {
		return false
	}
	// A class that the options name is adopted, whoever it was made for: that is
	// how Ingresses move here without being edited.
	return options.IngressClass != "" || class.Spec.Controller == ControllerName
}

func oursByAnnotation(object *networkingv1.Ingress, options Options) bool {
	value, there := object.Annotations[classAnnotation]
	if options.IngressClass != "" {
		return there && value == options.IngressClass
	}
	return value == "" || value == "slipway" || value == "traefik"
}
