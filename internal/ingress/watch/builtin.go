package watch

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/kube"
)

// builtIn returns the sources of the kinds that every cluster has.
func (w *Watcher) builtIn() []source {
	var sources []source
	all := metav1.ListOptions{}
	client := w.cluster.Client
	for _, namespace := range w.scopes() {
		sources = append(sources,
			w.mirrorSource(snapshot.Ingress, feedName{"ingresses", namespace}, &networkingv1.Ingress{},
				kube.NewListWatcher(client.NetworkingV1().Ingresses(namespace), metav1.ListOptions{LabelSelector: w.options.Selector})),
			w.mirrorSource(snapshot.Service, feedName{"services", namespace}, &corev1.Service{},
				kube.NewListWatcher(client.CoreV1().Services(namespace), all)),
			w.mirrorSource(snapshot.EndpointSlice, feedName{"endpointslices", namespace}, &discoveryv1.EndpointSlice{},
				kube.NewListWatcher(client.DiscoveryV1().EndpointSlices(namespace), all)),
		)
	}
	if !w.options.NoClasses {
		sources = append(sources, w.mirrorSource(snapshot.IngressClass, feedName{resource: "ingressclasses"}, &networkingv1.IngressClass{},
			kube.NewListWatcher(client.NetworkingV1().IngressClasses(), all)))
	}
	if !w.options.NoNodes {
		sources = append(sources, w.mirrorSource(snapshot.Node, feedName{resource: "nodes"}, &corev1.Node{},
			kube.NewListWatcher(client.CoreV1().Nodes(), all)))
	}
	if w.options.Gateways {
		sources = append(sources, w.mirrorSource(snapshot.Namespace, feedName{resource: "namespaces"}, &corev1.Namespace{},
			kube.NewListWatcher(client.CoreV1().Namespaces(), all)))
	}
	return sources
}

// sourcesOf returns the sources of a kind that is read on demand.
func (w *Watcher) sourcesOf(ctx context.Context, kind snapshot.Kind) []source {
	if kind == snapshot.Secret {
		return w.secretSources()
	}
	return w.customSources(ctx, kind)
}
