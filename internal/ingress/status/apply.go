package status

import (
	"context"
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applynetworkingv1 "k8s.io/client-go/applyconfigurations/networking/v1"
)

// statusWrite is a change of one status.
type statusWrite struct {
	at      ingressKey
	uid     types.UID
	version string
	step    step
	// addresses are for stepWrite.
	addresses []addressEntry
}

// applyStatus writes by server-side apply. The identity and the version make the
// API server refuse it for an Ingress that is another one, or has changed, since
// it was looked at: it may belong to somebody else by now.
//
// A configuration without a status gives up all that our field manager has. The
// addresses go then, unless somebody else wrote the same ones, and so does the
// entry that says that they are ours.
func (w *Writer) applyStatus(ctx context.Context, task statusWrite) (*networkingv1.Ingress, error) {
	wanted := applynetworkingv1.Ingress(task.at.name, task.at.namespace).
		WithUID(task.uid).
		WithResourceVersion(task.version)
	if task.step == stepWrite {
		balancer := applynetworkingv1.IngressLoadBalancerStatus()
		for i := range task.addresses {
			balancer.WithIngress(applyEntry(&task.addresses[i]))
		}
		wanted.WithStatus(applynetworkingv1.IngressStatus().WithLoadBalancer(balancer))
	}
	object, err := w.cluster.Client.NetworkingV1().Ingresses(task.at.namespace).ApplyStatus(
		ctx, wanted, metav1.ApplyOptions{FieldManager: FieldManager, Force: true})
	if err != nil {
		return nil, fmt.Errorf("write the status of %s: %w", task.at.ref(), err)
	}
	return object, nil
}

func applyEntry(entry *addressEntry) *applynetworkingv1.IngressLoadBalancerIngressApplyConfiguration {
	wanted := applynetworkingv1.IngressLoadBalancerIngress()
	if entry.IP != "" {
		wanted.WithIP(entry.IP)
	}
	if entry.Hostname != "" {
		wanted.WithHostname(entry.Hostname)
	}
	for _, port := range entry.Ports {
		at := applynetworkingv1.IngressPortStatus().WithPort(port.Port).WithProtocol(port.Protocol)
		if port.Error != nil {
			at.WithError(*port.Error)
		}
		wanted.WithPorts(at)
	}
	return wanted
}
