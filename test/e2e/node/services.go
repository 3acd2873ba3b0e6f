package node

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	answerTimeout = 5 * time.Second
	// timeToLive is short, because Services come and go.
	timeToLive = 2
	// largestQuery is the most that a query over UDP has without extensions.
	largestQuery = 512
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
	for _, serve := range []func(){func() { n.serveNames(ctx, socket) }, func() { n.balance(ctx) }} {
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
			patch, _ := json.Marshal(map[string]any{"status": map[string]any{"loadBalancer": corev1.LoadBalancerStatus{
				Ingress: []corev1.LoadBalancerIngress{{IP: next.String()}},
			}}})
			_, _ = n.Client.CoreV1().Services(service.Namespace).Patch(ctx, service.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		}
	}
}

// serveNames answers queries, one after the other: there are few.
func (n *Node) serveNames(ctx context.Context, socket net.PacketConn) {
	query := make([]byte, largestQuery)
	for ctx.Err() == nil {
		size, from, err := socket.ReadFrom(query)
		if err != nil {
			continue // it is closed, which the loop sees, or an answer did not arrive
		}
		if answer, err := n.answer(ctx, query[:size]); err == nil {
			_, _ = socket.WriteTo(answer, from)
		}
	}
}

// answer is what a query gets.
func (n *Node) answer(ctx context.Context, query []byte) ([]byte, error) {
	var parser dnsmessage.Parser
	header, err := parser.Start(query)
	if err != nil {
		return nil, err
	}
	question, err := parser.Question()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	addresses, known := n.resolve(ctx, strings.ToLower(strings.TrimSuffix(question.Name.String(), ".")))
	reply := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: header.ID, Response: true, Authoritative: true, RecursionDesired: header.RecursionDesired, RecursionAvailable: true},
		Questions: []dnsmessage.Question{question},
	}
	if !known {
		reply.RCode = dnsmessage.RCodeNameError
	}
	if question.Type == dnsmessage.TypeA {
		for _, address := range addresses {
			reply.Answers = append(reply.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET, TTL: timeToLive},
				Body:   &dnsmessage.AResource{A: address.As4()},
			})
		}
	}
	return reply.Pack()
}

// resolve gives the addresses of a name, and whether there is such a name.
func (n *Node) resolve(ctx context.Context, name string) ([]netip.Addr, bool) {
	if target, ok := n.cfg.Names[name]; ok {
		if address, err := netip.ParseAddr(target); err == nil {
			return []netip.Addr{address}, true
		}
		namespace, service, _ := strings.Cut(target, "/")
		address, err := n.BalancerAddress(ctx, namespace, service)
		if err != nil {
			return nil, true
		}
		return []netip.Addr{address}, true
	}
	host, ok := strings.CutSuffix(name, ".svc."+domain)
	if !ok {
		return nil, false
	}
	service, namespace, ok := strings.Cut(host, ".")
	if !ok || strings.Contains(namespace, ".") {
		return nil, false
	}
	found, err := n.Client.CoreV1().Services(namespace).Get(ctx, service, metav1.GetOptions{})
	if err != nil {
		return nil, false
	}
	address, err := netip.ParseAddr(found.Spec.ClusterIP)
	if err != nil {
		return nil, true // a headless Service, which nothing here asks for
	}
	return []netip.Addr{address}, true
}

// BalancerAddress is the address of a Service of type LoadBalancer.
func (n *Node) BalancerAddress(ctx context.Context, namespace, name string) (netip.Addr, error) {
	found, err := n.Client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return netip.Addr{}, err
	}
	if len(found.Status.LoadBalancer.Ingress) == 0 {
		return netip.Addr{}, fmt.Errorf("the Service %s/%s has no address yet", namespace, name)
	}
	return netip.ParseAddr(found.Status.LoadBalancer.Ingress[0].IP)
}

func containsAll(text string, parts ...string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}
