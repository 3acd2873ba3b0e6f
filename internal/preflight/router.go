package preflight

import (
	"context"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/kube"
)

// target returns where fixes write.
func (in *CheckContext) target() kube.Target {
	return kube.Target{Namespace: in.Settings.Namespace, Manager: fieldManager}
}

// routerIngress returns the Ingress of the runtime.
func (in *CheckContext) routerIngress(ctx context.Context) (*networkingv1.Ingress, error) {
	return in.Cluster.Client.NetworkingV1().Ingresses(in.Settings.Namespace).Get(ctx, mode.RouterService, metav1.GetOptions{})
}

// ingressAddresses returns the addresses in the status of that Ingress.
func (in *CheckContext) ingressAddresses(ctx context.Context) ([]string, error) {
	ingress, err := in.routerIngress(ctx)
	if err != nil {
		return nil, err
	}
	return addressesIn(ingress), nil
}

// addressesIn returns the load balancer addresses of an Ingress.
func addressesIn(ingress *networkingv1.Ingress) []string {
	var all []string
	for _, one := range ingress.Status.LoadBalancer.Ingress {
		if one.IP != "" {
			all = append(all, one.IP)
		}
		if one.Hostname != "" {
			all = append(all, one.Hostname)
		}
	}
	return all
}

// missing reports that an object does not exist or could not be read. A
// missing kind counts as a missing object.
func (r *Report) missing(subject string, err error, fix string) {
	switch {
	// A cluster without the CRD cannot have the object either.
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		r.fail(subject, "it does not exist", fix)
	default:
		r.readError(subject, err)
	}
}
