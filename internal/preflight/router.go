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

// target is where fixes write.
func (in *Inquiry) target() kube.Target {
	return kube.Target{Namespace: in.Settings.Namespace, Manager: fieldManager}
}

// routerIngress is the Ingress of the runtime.
func (in *Inquiry) routerIngress(ctx context.Context) (*networkingv1.Ingress, error) {
	return in.Cluster.Client.NetworkingV1().Ingresses(in.Settings.Namespace).Get(ctx, mode.RouterService, metav1.GetOptions{})
}

// ingressAddresses are those that the controller wrote into it.
func (in *Inquiry) ingressAddresses(ctx context.Context) ([]string, error) {
	ingress, err := in.routerIngress(ctx)
	if err != nil {
		return nil, err
	}
	return addressesIn(ingress), nil
}

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

// missing tells that an object is not there, or could not be read.
func (r *Report) missing(subject string, err error, fix string) {
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		r.fail(subject, "it does not exist", fix)
	default:
		r.unseen(subject, err)
	}
}
