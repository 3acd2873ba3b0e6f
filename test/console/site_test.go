package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	listersv1 "k8s.io/client-go/listers/core/v1"
	slicelisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"

	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/test/kubelet"
)

// site is a cluster that a runtime can be installed in: with a node that can run it,
// and a load balancer before its Services.
type site struct {
	cluster *kubetest.Cluster
	node    *kubelet.Node
	// balancer is the address that Services of the type LoadBalancer get.
	balancer string

	services listersv1.ServiceLister
	slices   slicelisters.EndpointSliceLister
	turn     atomic.Uint64
	open     sync.WaitGroup
}

// newSite gives a cluster what a cloud gives one.
func (w *world) newSite(t *testing.T, cluster *kubetest.Cluster, balancer string) *site {
	t.Helper()
	s := &site{cluster: cluster, balancer: balancer}
	ctx, stop := context.WithCancel(context.Background())
	factory := informers.NewSharedInformerFactory(cluster.Client, 0)
	s.services, s.slices = factory.Core().V1().Services().Lister(), factory.Discovery().V1().EndpointSlices().Lister()
	if _, err := factory.Core().V1().Services().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { s.publish(ctx, object.(*corev1.Service)) },
		UpdateFunc: func(_, object any) { s.publish(ctx, object.(*corev1.Service)) },
	}); err != nil {
		t.Fatal(err)
	}
	factory.Discovery().V1().EndpointSlices().Informer()
	t.Cleanup(func() {
		stop()
		factory.Shutdown()
		s.open.Wait()
	})
	factory.StartWithContext(ctx)
	factory.WaitForCacheSyncWithContext(ctx)
	for _, port := range []int32{80, 443} {
		s.listen(ctx, t, port)
	}
	s.node = kubelet.Start(t, cluster, kubelet.Options{
		Name: "runtimes", Program: w.binary, Image: func(image string) bool { return strings.HasPrefix(image, "slipway.dev/slipway:") },
		Trusted: func() []byte { return w.trustedText },
	})
	w.certificate(t, s)
	return s
}

// publish gives a Service its address.
func (s *site) publish(ctx context.Context, service *corev1.Service) {
	if service.Spec.Type != corev1.ServiceTypeLoadBalancer || len(service.Status.LoadBalancer.Ingress) > 0 {
		return
	}
	patch := fmt.Sprintf(`{"status":{"loadBalancer":{"ingress":[{"ip":%q}]}}}`, s.balancer)
	// A Service that is gone needs none; another change of one that is there asks again.
	_, _ = s.cluster.Client.CoreV1().Services(service.Namespace).Patch(ctx, service.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
}

// listen leads connections to a port of the load balancer to the Pods behind it.
func (s *site) listen(ctx context.Context, t *testing.T, port int32) {
	t.Helper()
	listener := must.Get(net.Listen("tcp", net.JoinHostPort(s.balancer, strconv.Itoa(int(port)))))(t)
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	s.open.Go(func() {
		defer stop()
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			s.open.Go(func() { s.lead(ctx, client, port) })
		}
	})
}

func (s *site) lead(ctx context.Context, client net.Conn, port int32) {
	defer client.Close()
	all, err := s.services.List(labels.Everything())
	if err != nil {
		return
	}
	for _, service := range all {
		if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
			continue
		}
		if address, err := s.endpoint(service.Namespace, service.Name, port); err == nil {
			if server, err := (&net.Dialer{}).DialContext(ctx, "tcp", address); err == nil {
				splice(ctx, client, server)
				return
			}
		}
	}
}

// splice passes bytes on until both sides are done.
func splice(ctx context.Context, client, server net.Conn) {
	defer server.Close()
	stop := context.AfterFunc(ctx, func() { _ = errors.Join(client.Close(), server.Close()) })
	defer stop()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		both.Go(func() {
			_, _ = io.Copy(way[1], way[0]) // a side that breaks off ends it
			if half, ok := way[1].(*net.TCPConn); ok {
				_ = half.CloseWrite()
			}
		})
	}
	both.Wait()
}

// endpoint is where a port of a Service leads, one ready Pod after another.
func (s *site) endpoint(namespace, name string, port int32) (string, error) {
	service, err := s.services.Services(namespace).Get(name)
	if err != nil {
		return "", err
	}
	var found []string
	for _, one := range service.Spec.Ports {
		slices, err := s.slices.EndpointSlices(namespace).List(labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: name}))
		if err != nil {
			return "", err
		}
		for _, slice := range slices {
			if one.Port == port {
				found = append(found, ready(slice, one.Name)...)
			}
		}
	}
	if len(found) == 0 {
		return "", errors.New("nothing is ready behind the Service " + namespace + "/" + name)
	}
	return found[s.turn.Add(1)%uint64(len(found))], nil
}

// ready are the addresses behind a port.
func ready(slice *discoveryv1.EndpointSlice, port string) (addresses []string) {
	for _, one := range slice.Ports {
		if one.Name == nil || *one.Name != port || one.Port == nil {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			if endpoint.Conditions.Ready != nil && *endpoint.Conditions.Ready {
				addresses = append(addresses, net.JoinHostPort(endpoint.Addresses[0], strconv.Itoa(int(*one.Port))))
			}
		}
	}
	return addresses
}
