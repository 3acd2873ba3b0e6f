package controller

import (
	"maps"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/internal/ingress/difference"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// The names by which objects are recognised.
const (
	classAnnotation     = "kubernetes.io/ingress.class"
	nginxAnnotations    = "nginx.ingress.kubernetes.io/"
	traefikAnnotations  = "traefik.ingress.kubernetes.io/"
	traefikController   = "traefik.io/ingress-controller"
	nginxControllerStem = "k8s.io/ingress-nginx"
)

// adopt gives all objects a class that the edge serves, and lists them with the
// controller that they are written for. Objects of other classes than the selected one
// are left out, with their hosts: they stay with their controller.
func (r *reporting) adopt() {
	r.offline.assumeClasses()
	options := r.Options.Providers.KubernetesIngressNGINX
	nginxClass := &networkingv1.IngressClass{}
	nginxClass.Name, nginxClass.Spec.Controller = "slipway-report-nginx", options.ControllerClass
	ownClass := &networkingv1.IngressClass{}
	ownClass.Name, ownClass.Spec.Controller = "slipway-report", resolve.ControllerName
	r.facts.Put(nginxClass)
	r.facts.Put(ownClass)
	var ingresses []*networkingv1.Ingress
	for namespace, name := range r.facts.Names(snapshot.Ingress) {
		ingresses = append(ingresses, r.facts.Ingress(namespace, name))
	}
	for _, ingress := range ingresses {
		source, class := r.sourceOf(ingress)
		if r.Class != "" && class != r.Class {
			r.facts.Delete(snapshot.Ingress, ingress.Namespace, ingress.Name)
			continue
		}
		ref := snapshot.Ref{Kind: snapshot.Ingress, Namespace: ingress.Namespace, Name: ingress.Name}
		object := r.objectOf(ref)
		object.Source, object.Class = source, class
		adopted := ingress.DeepCopy()
		delete(adopted.Annotations, classAnnotation)
		adopted.Spec.IngressClassName = &ownClass.Name
		if source == difference.NGINX {
			adopted.Spec.IngressClassName = &nginxClass.Name
		}
		r.facts.Put(adopted)
	}
	r.adoptRoutes()
}

// adoptRoutes lists the routes of Traefik, of any class.
func (r *reporting) adoptRoutes() {
	view := r.facts.View()
	for _, kind := range snapshot.TraefikRoutes() {
		var refs []snapshot.Ref
		for namespace, name := range r.facts.Names(kind) {
			refs = append(refs, snapshot.Ref{Kind: kind, Namespace: namespace, Name: name})
		}
		for _, ref := range refs {
			resource, _ := view.Resource(kind, ref.Namespace, ref.Name)
			class := resource.Annotations[classAnnotation]
			if r.Class != "" && class != r.Class && (class != "" || r.Class != "traefik") {
				r.facts.Delete(kind, ref.Namespace, ref.Name)
				continue
			}
			object := r.objectOf(ref)
			object.Source, object.Class = difference.Traefik, class
			adopted := *resource
			adopted.Annotations = maps.Clone(resource.Annotations)
			delete(adopted.Annotations, classAnnotation)
			r.facts.Put(&adopted)
		}
	}
}

// sourceOf returns the controller of an Ingress, and its class. The IngressClass decides;
// without one, the name of the class and then the annotations do.
func (r *reporting) sourceOf(ingress *networkingv1.Ingress) (source difference.Source, class string) {
	class = ingress.Annotations[classAnnotation]
	if ingress.Spec.IngressClassName != nil {
		class = *ingress.Spec.IngressClassName
	}
	options := r.Options.Providers.KubernetesIngressNGINX
	controller := ""
	if found := r.facts.View().Class(class); found != nil {
		controller = found.Spec.Controller
	}
	switch {
	case controller == options.ControllerClass, strings.HasPrefix(controller, nginxControllerStem), class == options.AnnotationClass:
		return difference.NGINX, class
	case controller == traefikController, class == "traefik":
		return difference.Traefik, class
	case controller != "" && controller != resolve.ControllerName:
		return difference.Plain, class
	}
	for name := range ingress.Annotations {
		if strings.HasPrefix(name, nginxAnnotations) && class == "" {
			return difference.NGINX, class
		}
		if strings.HasPrefix(name, traefikAnnotations) {
			source = difference.Traefik
		}
	}
	if source == "" {
		source = difference.Plain
	}
	return source, class
}
