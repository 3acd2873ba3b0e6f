package preflight

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

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
// missing kind counts as a missing object. It returns the finding of a missing
// object, and nil for one that cannot be read.
func (r *Report) missing(subject string, err error, fix string) *Finding {
	// A cluster without the CRD cannot have the object either.
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return r.fail(subject, "it does not exist", fix)
	}
	r.readError(subject, err)
	return nil
}

// inRelease reports whether the chart installs an object of a kind.
func (in *CheckContext) inRelease(kind string) bool {
	return slices.ContainsFunc(in.Objects, func(one Object) bool { return one.Kind == kind })
}

// offerRelease offers to repair an object of the release by changing the
// release; nil applies it again.
func (in *CheckContext) offerRelease(finding *Finding, changes map[string]any) {
	if finding == nil || in.ChangeRelease == nil || in.Stage == Before {
		return
	}
	finding.Plan = "apply the release " + in.Settings.Namespace + "/" + cmp.Or(in.Release, defaultRelease) + " again"
	if text, err := json.Marshal(changes); err == nil && changes != nil {
		finding.Plan = "upgrade the release " + in.Settings.Namespace + "/" + cmp.Or(in.Release, defaultRelease) + " with the values " + string(text)
	}
	finding.Apply = func(ctx context.Context) error { return in.ChangeRelease(ctx, changes) }
}
