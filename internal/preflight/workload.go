package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"slipway.dev/slipway/internal/access/mode"
)

// workload is a Deployment or DaemonSet of a controller.
type workload struct {
	kind, namespace, name string
	template              corev1.PodTemplateSpec
	// container is the index of the controller's container in the Pod.
	container int
	available bool
}

func (w *workload) String() string { return named(w.kind, w.namespace, w.name) }

// program returns the container of the controller.
func (w *workload) program() *corev1.Container { return &w.template.Spec.Containers[w.container] }

// hostPorts reports whether it listens on the addresses of its nodes.
func (w *workload) hostPorts() bool {
	return w.template.Spec.HostNetwork || slices.ContainsFunc(w.program().Ports, func(port corev1.ContainerPort) bool { return port.HostPort > 0 })
}

// controllerView is the Ingress controller as it runs in the cluster.
type controllerView struct {
	// class is nil if it does not exist, or for a mesh, which needs none.
	class *networkingv1.IngressClass
	// classes are the names of all classes with their controllers.
	classes []string
	// known is set for a known controller.
	known      bool
	controller Controller
	workloads  []*workload
	services   []corev1.Service
}

// viewController finds the class, its controller, and the workloads and
// Services of the controller.
func (in *CheckContext) viewController(ctx context.Context) (*controllerView, error) {
	view := &controllerView{}
	// A mesh has no IngressClass; its ingress gateway takes the controller's
	// place.
	if in.requestedMode() == mode.Mesh {
		// Any mesh can serve the URL of the runtime; only Istio is known.
		istio, err := in.istioVersion()
		if err != nil || istio == "" {
			return view, err
		}
		view.known, view.controller = true, controllerByID(Istio)
	} else if err := in.viewClass(ctx, view); err != nil {
		return nil, err
	}
	if !view.known {
		return view, nil
	}
	if err := in.viewWorkloads(ctx, view); err != nil {
		return nil, err
	}
	return view, in.viewServices(ctx, view)
}

// viewClass finds the IngressClass and its controller.
func (in *CheckContext) viewClass(ctx context.Context, view *controllerView) error {
	list, err := in.Cluster.Client.NetworkingV1().IngressClasses().List(ctx, metav1.ListOptions{Limit: maxListed})
	if err != nil {
		return err
	}
	// All classes are recorded, so that a finding can name the existing ones.
	for i := range list.Items {
		class := &list.Items[i]
		view.classes = append(view.classes, fmt.Sprintf("%s (%s)", class.Name, class.Spec.Controller))
		if class.Name == in.Settings.Ingress.ClassName {
			view.class = class
			view.controller, view.known = controllerOf(class.Spec.Controller)
		}
	}
	return nil
}

// viewWorkloads lists Deployments and DaemonSets and keeps those of the
// controller.
func (in *CheckContext) viewWorkloads(ctx context.Context, view *controllerView) error {
	apps := in.Cluster.Client.AppsV1()
	deployments, err := apps.Deployments(in.ControllerNamespace).List(ctx, metav1.ListOptions{Limit: maxListed})
	if err != nil {
		return err
	}
	for _, one := range deployments.Items {
		view.take(&workload{kind: "Deployment", namespace: one.Namespace, name: one.Name, template: one.Spec.Template, available: one.Status.AvailableReplicas > 0})
	}
	// Controllers on bare metal often run as a DaemonSet with host ports.
	sets, err := apps.DaemonSets(in.ControllerNamespace).List(ctx, metav1.ListOptions{Limit: maxListed})
	if err != nil {
		return err
	}
	for _, one := range sets.Items {
		view.take(&workload{kind: "DaemonSet", namespace: one.Namespace, name: one.Name, template: one.Spec.Template, available: one.Status.NumberAvailable > 0})
	}
	view.narrow(in.Settings.Ingress.ClassName)
	return nil
}

// take adds a workload that runs the controller.
func (v *controllerView) take(found *workload) {
	if len(found.template.Spec.Containers) == 0 || !v.controller.runs(found.template) {
		return
	}
	// Sidecars are common; the first container is the fallback where labels
	// matched.
	found.container = max(0, slices.IndexFunc(found.template.Spec.Containers, func(container corev1.Container) bool {
		return imageIs(container.Image, v.controller.images)
	}))
	v.workloads = append(v.workloads, found)
}

// narrow keeps the workloads that name the class, if several controllers of
// one type run and any does.
func (v *controllerView) narrow(class string) {
	// The flags with which the controllers select a class.
	const nginx, traefik = "ingress-class", "providers.kubernetesingress.ingressclass"
	naming := slices.DeleteFunc(slices.Clone(v.workloads), func(one *workload) bool {
		for _, flag := range []string{nginx, traefik} {
			if value, given := flagValue(one.program(), flag); given && value == class {
				return false
			}
		}
		return true
	})
	if class != "" && len(naming) > 0 {
		v.workloads = naming
	}
}

// viewServices finds the Services that expose the workloads. Services for
// webhooks and metrics are internal to the cluster and are skipped.
func (in *CheckContext) viewServices(ctx context.Context, view *controllerView) error {
	seen := map[string]bool{}
	// A Service may select several workloads; it is listed once.
	for _, one := range view.workloads {
		list, err := in.Cluster.Client.CoreV1().Services(one.namespace).List(ctx, metav1.ListOptions{Limit: maxListed})
		// The namespace may have been deleted since the workloads were
		// listed.
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		for _, service := range list.Items {
			if len(service.Spec.Selector) == 0 || seen[service.Namespace+"/"+service.Name] ||
				!labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(one.template.Labels)) || !exposes(service) {
				continue
			}
			seen[service.Namespace+"/"+service.Name] = true
			view.services = append(view.services, service)
		}
	}
	return nil
}

// exposes reports whether a Service is reachable from outside of the cluster.
func exposes(service corev1.Service) bool {
	return service.Spec.Type == corev1.ServiceTypeLoadBalancer || service.Spec.Type == corev1.ServiceTypeNodePort || len(service.Spec.ExternalIPs) > 0
}

// addresses returns the addresses of the Services.
func (v *controllerView) addresses() []string {
	var all []string
	for _, service := range v.services {
		all = append(all, serviceAddresses(service)...)
	}
	return all
}

// serviceAddresses returns external IPs and load balancer addresses of a
// Service.
func serviceAddresses(service corev1.Service) []string {
	all := slices.Clone(service.Spec.ExternalIPs)
	for _, one := range service.Status.LoadBalancer.Ingress {
		if one.IP != "" {
			all = append(all, one.IP)
		}
		if one.Hostname != "" {
			all = append(all, strings.TrimSuffix(one.Hostname, "."))
		}
	}
	return all
}

// needsController returns the controller, or skips a check that is about one.
func (in *CheckContext) needsController(out *Report) *controllerView {
	switch in.requestedMode() {
	case mode.Tunnel, mode.Unresolved:
		out.skip("the runtime is reached through its tunnel")
		return nil
	case mode.HTTPRoute:
		out.skip("the Gateway decides, and no Ingress controller")
		return nil
	case mode.Ingress, mode.Mesh:
	}
	view, err := in.controller()
	if err != nil {
		out.inspect("IngressClasses, and the Deployments, DaemonSets and Services of controllers")
		out.readError("ingressclasses, deployments, daemonsets and services", err)
		return nil
	}
	if !view.known {
		// The class of the chart's own edge does not exist before the
		// installation.
		if in.requestedMode() == mode.Mesh {
			out.skip("the cluster has no Istio: another mesh serves the URL, see %s", URLResponse)
		} else if view.class == nil && in.Settings.Ingress.ClassName == ownClass {
			out.skip("the chart brings the class and the edge that serves it")
		} else if view.class == nil {
			out.skip("the IngressClass %q is not there: see P14", in.Settings.Ingress.ClassName)
		} else {
			out.skip("the controller %s is not known: see P14", view.class.Spec.Controller)
		}
		return nil
	}
	return view
}
