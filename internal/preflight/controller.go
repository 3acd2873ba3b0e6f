package preflight

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// fieldManager is the field manager of fixes.
const fieldManager = "slipway-preflight"

// containerSpec shortens signatures.
type containerSpec = corev1.Container

// ControllerID identifies a known Ingress controller.
type ControllerID string

// The documented controllers, and Slipway's own.
const (
	Ambassador      ControllerID = "ambassador"
	ALB             ControllerID = "aws-alb"
	Istio           ControllerID = "istio"
	NGINXEnterprise ControllerID = "nginx-enterprise"
	NGINXCommunity  ControllerID = "nginx-community"
	Traefik         ControllerID = "traefik"
	SlipwayEdge     ControllerID = "slipway"
)

// Controller describes an Ingress controller.
type Controller struct {
	ID   ControllerID
	Name string
	// Class is the spec.controller of its IngressClass.
	Class string
	// images are the suffixes of its image names.
	images []string
	// label and values identify its Pods where the image does not.
	label  string
	values []string
	// Page is its documentation page.
	Page string
}

// Controllers returns the known controllers.
func Controllers() []Controller {
	return []Controller{
		{Ambassador, "Ambassador", "getambassador.io/ingress-controller",
			[]string{"ambassador", "aes", "emissary", "emissary-ingress"}, "product", []string{"aes"}, "docs/install/controllers/ambassador.md"},
		{ALB, "AWS Load Balancer Controller", "ingress.k8s.aws/alb",
			[]string{"aws-load-balancer-controller", "aws-alb-ingress-controller"}, "app.kubernetes.io/name", []string{"aws-load-balancer-controller"}, "docs/install/controllers/aws-alb.md"},
		{Istio, "Istio", "istio.io/ingress-controller",
			nil, "istio", []string{"ingressgateway", "ingress", "internal-router"}, "docs/install/controllers/istio.md"},
		{NGINXEnterprise, "NGINX Enterprise", "nginx.org/ingress-controller",
			[]string{"nginx-ingress", "nginx-plus-ingress"}, "app.kubernetes.io/name", []string{"nginx-ingress"}, "docs/install/controllers/nginx-enterprise.md"},
		{NGINXCommunity, "NGINX Community", "k8s.io/ingress-nginx",
			[]string{"ingress-nginx/controller", "ingress-nginx-controller", "nginx-ingress-controller"}, "app.kubernetes.io/name", []string{"ingress-nginx"}, "docs/install/controllers/nginx-community.md"},
		{Traefik, "Traefik", "traefik.io/ingress-controller",
			[]string{"traefik", "traefikee"}, "app.kubernetes.io/name", []string{"traefik"}, "docs/install/controllers/traefik.md"},
		{SlipwayEdge, "Slipway", "slipway.dev/ingress-controller",
			nil, "app.kubernetes.io/name", []string{"slipway-edge"}, "docs/install/controllers/slipway.md"},
	}
}

// controllerOf returns the controller of a spec.controller. Some allow a
// suffix for a second instance, such as
// getambassador.io/ingress-controller/internal.
func controllerOf(class string) (Controller, bool) {
	for _, one := range Controllers() {
		if class == one.Class || strings.HasPrefix(class, one.Class+"/") || strings.HasPrefix(class, one.Class+"-") {
			return one, true
		}
	}
	return Controller{}, false
}

// controllerByID returns a known controller; the ID must be one of the
// constants.
func controllerByID(id ControllerID) Controller {
	all := Controllers()
	return all[slices.IndexFunc(all, func(one Controller) bool { return one.ID == id })]
}

// runs reports whether a Pod template runs the controller.
func (c Controller) runs(template corev1.PodTemplateSpec) bool {
	// The image is the stronger evidence: labels depend on the chart.
	if slices.ContainsFunc(template.Spec.Containers, func(container corev1.Container) bool { return imageIs(container.Image, c.images) }) {
		return true
	}
	return c.label != "" && slices.Contains(c.values, template.Labels[c.label])
}

// imageIs reports whether an image name ends with one of the names,
// regardless of the registry it is mirrored to.
func imageIs(image string, names []string) bool {
	// Digest and tag are removed. A colon before the last slash belongs to
	// the registry's port.
	repository, _, _ := strings.Cut(image, "@")
	if slash := strings.LastIndexByte(repository, '/'); strings.LastIndexByte(repository, ':') > slash {
		repository = repository[:strings.LastIndexByte(repository, ':')]
	}
	return slices.ContainsFunc(names, func(name string) bool {
		return repository == name || strings.HasSuffix(repository, "/"+name)
	})
}

// flagValue returns a flag of a container: --name=value, -name=value, --name
// value, or --name alone, which is true. Names are case-insensitive, as in
// Traefik and the edge.
func flagValue(container *corev1.Container, name string) (string, bool) {
	// Some charts put flags into command, so both are searched.
	arguments := slices.Concat(container.Command, container.Args)
	for i, argument := range arguments {
		if !strings.HasPrefix(argument, "-") {
			continue
		}
		key, value, given := strings.Cut(strings.TrimLeft(argument, "-"), "=")
		if !strings.EqualFold(key, name) {
			continue
		}
		if given {
			return value, true
		}
		if i+1 < len(arguments) && !strings.HasPrefix(arguments[i+1], "-") {
			return arguments[i+1], true
		}
		return "true", true
	}
	return "", false
}

// sortedKeys returns the keys of a map in order, for stable output.
func sortedKeys[K cmp.Ordered, V any](from map[K]V) []K { return slices.Sorted(maps.Keys(from)) }
