package resolve

import (
	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/internal/ingress/snapshot"
)

// ControllerName is the spec.controller of the IngressClasses whose Ingresses are
// ours.
const ControllerName = "slipway.dev/ingress-controller"

// classAnnotation names a class in the way before spec.ingressClassName.
const classAnnotation = "kubernetes.io/ingress.class"

// ours reports whether an Ingress is served by this controller. The default class
// of a cluster is not evaluated: the API server writes it into an Ingress that is
// created without one, so an Ingress without a class has none on purpose.
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
	// A class that the options name is adopted even if it names another
	// controller: so Ingresses can be migrated without being edited.
	return options.IngressClass != "" || class.Spec.Controller == ControllerName
}

// ofNGINX reports whether an Ingress has the class of ingress-nginx, if those are
// served.
func ofNGINX(view *snapshot.View, object *networkingv1.Ingress, options Options) bool {
	if options.NGINX == nil {
		return false
	}
	if object.Spec.IngressClassName == nil {
		value, there := object.Annotations[classAnnotation]
		return there && value == options.NGINX.Class || !there && options.NGINX.WithoutClass
	}
	if options.NoClassLookup || options.NoClusterScope {
		return false
	}
	class := view.Class(*object.Spec.IngressClassName)
	return class != nil && class.Spec.Controller == options.NGINX.Controller
}

func oursByAnnotation(object *networkingv1.Ingress, options Options) bool {
	value, there := object.Annotations[classAnnotation]
	if options.IngressClass != "" {
		return there && value == options.IngressClass
	}
	return value == "" || value == "slipway" || value == "traefik"
}
