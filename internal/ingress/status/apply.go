package status

import (
	"context"
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applynetworkingv1 "k8s.io/client-go/applyconfigurations/networking/v1"
)

// statusWrite is one write of a status. It is a copy, so that the request needs
// no lock.
type statusWrite struct {
	at      ingressKey
	uid     types.UID
	version string
	step    step
	// shared is that of the record.
	shared bool
	// addresses are for stepWrite.
	addresses []addressEntry
}

// applyStatus writes a status by server-side apply. UID and resource version make
// the API server return a conflict for an Ingress that was replaced or changed
// since it was read: it may belong to another controller by now. The version of an
// Ingress that is no longer watched is empty.
//
// A configuration without a status releases all fields of our field manager. The
// addresses are removed, unless another manager owns them too, and so is the
// managed-fields entry that marks them as ours.
func (w *Writer) applyStatus(ctx context.Context, task statusWrite) (*networkingv1.Ingress, error) {
	wanted := applynetworkingv1.Ingress(task.at.name, task.at.namespace).WithUID(task.uid)
	if task.version != "" {
		wanted.WithResourceVersion(task.version)
	}
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
