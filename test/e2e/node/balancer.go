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

// startServices answers names and gives load balancers their addresses, until the
// node stops.
func (n *Node) startServices(context.Context) error {
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

// balance gives each Service of type LoadBalancer an address. kube-proxy does the
// rest, and the network outside has a route.
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
		list, err := n.Client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
		if err != nil {
			continue // it is asked again
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
				return // it is a constant shape
			}
			// What fails is seen in the next round: the Service has no address then.
			_, _ = n.Client.CoreV1().Services(service.Namespace).Patch(ctx, service.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		}
	}
}

// BalancerAddress is the address of a Service of type LoadBalancer.
func (n *Node) BalancerAddress(ctx context.Context, namespace, name string) (netip.Addr, error) {
	found, err := n.Client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return netip.Addr{}, err
	}
	return balancerAddress(found)
}

// errNoAddress is for a Service whose load balancer is still to come.
var errNoAddress = errors.New("has no address yet")

func balancerAddress(service *corev1.Service) (netip.Addr, error) {
	if len(service.Status.LoadBalancer.Ingress) == 0 {
		return netip.Addr{}, fmt.Errorf("the Service %s/%s %w", service.Namespace, service.Name, errNoAddress)
	}
	return netip.ParseAddr(service.Status.LoadBalancer.Ingress[0].IP)
}
