package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// startServices starts the DNS server and the load balancer controller. They
// run in this process, on a context of their own: the one of the step ends with
// it.
func (n *Node) startServices(context.Context) error {
	// The bind happens before the goroutines start, so Pods can resolve names
	// as soon as Start returns.
	socket, err := net.ListenPacket("udp", net.JoinHostPort(nodeIP, "53"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	context.AfterFunc(ctx, func() { _ = socket.Close() })
	names := &nameServer{names: n.cfg.Names, service: func(ctx context.Context, namespace, name string) (*corev1.Service, error) {
		return n.Client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	}}
	// Stop waits for these channels, so no goroutine uses the client after the
	// API server is gone.
	for _, serve := range []func(){func() { names.serve(ctx, socket) }, func() { n.balance(ctx) }} {
		ended := make(chan struct{})
		n.served = append(n.served, ended)
		go func() {
			defer close(ended)
			serve()
		}()
	}
	return nil
}

// balance assigns an address to each Service of type LoadBalancer, as a cloud
// controller manager does. kube-proxy programs the rules for it, and the
// network outside has a route to the range. Addresses are never reused during a
// run.
func (n *Node) balance(ctx context.Context) {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	next := netip.MustParsePrefix(balancers).Addr()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		// A poll is enough here: the interval is short, the cluster is small,
		// and a watch would need its own resync after errors.
		list, err := n.Client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
		if err != nil {
			continue // the next tick retries
		}
		for _, service := range list.Items {
			if service.Spec.Type != corev1.ServiceTypeLoadBalancer || len(service.Status.LoadBalancer.Ingress) > 0 {
				continue
			}
			next = next.Next()
			patch, err := json.Marshal(map[string]any{"status": map[string]any{"loadBalancer": corev1.LoadBalancerStatus{
				Ingress: []corev1.LoadBalancerIngress{{IP: next.String()}},
			}}})
			if err != nil {
				return // cannot happen: the type always encodes
			}
			// A failed patch is retried in the next pass, because the Service
			// then still has no address. That skips one address of the range,
			// which is harmless.
			_, _ = n.Client.CoreV1().Services(service.Namespace).Patch(ctx, service.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		}
	}
}

// BalancerAddress returns the address of a Service of type LoadBalancer.
func (n *Node) BalancerAddress(ctx context.Context, namespace, name string) (netip.Addr, error) {
	found, err := n.Client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return netip.Addr{}, err
	}
	return balancerAddress(found)
}

// errNoAddress is the error for a Service whose load balancer is pending.
var errNoAddress = errors.New("has no address yet")

// balancerAddress reads the address from the status of a Service. The
// controller above writes exactly one.
func balancerAddress(service *corev1.Service) (netip.Addr, error) {
	if len(service.Status.LoadBalancer.Ingress) == 0 {
		return netip.Addr{}, fmt.Errorf("the Service %s/%s %w", service.Namespace, service.Name, errNoAddress)
	}
	return netip.ParseAddr(service.Status.LoadBalancer.Ingress[0].IP)
}
