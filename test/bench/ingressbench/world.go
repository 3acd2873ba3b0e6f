package main

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/kube/kubetest/privatenet"
	"slipway.dev/slipway/test/bench/ground"
)

const (
	// namespaces is the number of namespaces that the Ingresses are spread
	// over.
	namespaces = 20
	// creators is the number of concurrent goroutines that create objects.
	creators = 32
	// labelMade distinguishes Ingresses that a phase creates and deletes from
	// the permanent ones.
	labelMade = "bench"
)

// world is the content of the cluster. Phases change its fields from one
// goroutine, and only while no load reads them.
type world struct {
	*ground.Cluster
	tls   bool
	certs *pkitest.Authority
	// nginx writes Ingresses of ingress-nginx.
	nginx bool
	// gateway writes routes of a Gateway in the place of Ingresses.
	gateway bool
	// apps is the number of permanent Ingresses, each with its own Service.
	apps int
	// extra counts the Ingresses that phases have created, so that names are
	// never reused and a stale route cannot pass for a new one.
	extra int
	// moved has the applications that are on the second of their two endpoints.
	moved map[int]bool
}

// newWorld creates the CA and the namespaces. grow adds the applications.
func newWorld(ctx context.Context, c *ground.Cluster, s *settings) (*world, error) {
	w := &world{Cluster: c, tls: s.tls, nginx: s.nginx, gateway: s.gateway, moved: map[int]bool{}}
	var err error
	if w.certs, err = pkitest.MakeAuthority("ingressbench"); err != nil {
		return nil, err
	}
	for i := range namespaces {
		object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaceOf(i)}}
		if _, err := c.Client.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return nil, err
		}
	}
	if w.gateway {
		return w, w.defineGateways(ctx)
	}
	return w, nil
}

// namespaceOf, appName, hostOf, extraName and extraHost derive all names from a
// number, so that nothing has to be stored per application.
func namespaceOf(i int) string { return fmt.Sprintf("bench-%02d", i%namespaces) }

func appName(i int) string { return fmt.Sprintf("app-%05d", i) }

func hostOf(i int) string { return appName(i) + ".bench.test" }

func extraName(i int) string { return fmt.Sprintf("extra-%05d", i) }

func extraHost(i int) string { return extraName(i) + ".bench.test" }

// endpointOf returns one of the two addresses of an application: the first is
// in the lower half of the pod network, the second in the upper half.
func endpointOf(i int, moved bool) netip.Addr {
	raw := privatenet.PodNetwork().Addr().As4()
	if moved {
		raw[2] += 128
	}
	i++ // not the address of the network
	raw[2] += byte(i >> 8)
	raw[3] += byte(i)
	return netip.AddrFrom4(raw)
}

// grow creates applications until there are size of them, and returns the time
// it took.
func (w *world) grow(ctx context.Context, size int) (took time.Duration, err error) {
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	next.Store(int64(w.apps))
	for range creators {
		group.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= size {
					return nil
				}
				if err := w.create(ctx, i); err != nil {
					return fmt.Errorf("create %s: %w", appName(i), err)
				}
			}
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	w.apps = size
	return time.Since(began), nil
}

// create creates the objects of an application. The Ingress comes last, so that
// its references exist when the edge sees it.
func (w *world) create(ctx context.Context, i int) error {
	namespace := namespaceOf(i)
	if _, err := w.Client.CoreV1().Services(namespace).Create(ctx, serviceOf(appName(i), appLabels(i)), metav1.CreateOptions{}); err != nil {
		return err
	}
	slice := newSlice(appName(i), appName(i), appLabels(i), endpointOf(i, false))
	if _, err := w.Client.DiscoveryV1().EndpointSlices(namespace).Create(ctx, slice, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := w.createCertificate(ctx, namespace, appName(i), hostOf(i)); err != nil {
		return err
	}
	ingress := w.ingressOf(appName(i), hostOf(i), appName(i))
	ingress.Namespace, ingress.Labels = namespace, appLabels(i)
	_, err := w.put(ctx, ingress)
	return err
}

// appLabels returns the labels that such objects have in a real cluster.
// Nothing reads them, but the edge's caches receive them. The map is new at
// each call; callers may change it.
func appLabels(i int) map[string]string {
	return map[string]string{
		"app.kubernetes.io/name": appName(i), "app.kubernetes.io/instance": appName(i) + "-production",
		"app.kubernetes.io/managed-by": "Helm", "helm.sh/chart": "application-1.2.3",
	}
}

// serviceOf returns a headless Service without a selector, whose EndpointSlices
// the benchmark writes itself. Allocating a cluster IP would take the API
// server as long as all the rest, and no route uses it.
func serviceOf(name string, labels map[string]string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{
			Name: "http", Port: 80, TargetPort: intstr.FromInt32(backendPort), Protocol: corev1.ProtocolTCP,
		}}},
	}
}

// newSlice returns an EndpointSlice of a Service with ready endpoints on the
// addresses. It adds the labels that bind the slice to the Service to the given
// map.
func newSlice(name, service string, labels map[string]string, addresses ...netip.Addr) *discoveryv1.EndpointSlice {
	ready, portName, port, protocol, node := true, "http", int32(backendPort), corev1.ProtocolTCP, "node-1"
	labels[discoveryv1.LabelServiceName] = service
	labels[discoveryv1.LabelManagedBy] = "ingressbench"
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: labels},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &portName, Port: &port, Protocol: &protocol}},
	}
	for _, address := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{address.String()},
			Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &ready},
			NodeName:   &node,
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Name: service + "-5d4f9c7b8-" + address.String()},
		})
	}
	return slice
}

// ingressOf returns an Ingress of one host for a Service. With TLS it refers to
// a Secret of the same name, which createCertificate creates.
func (w *world) ingressOf(name, host, service string) *networkingv1.Ingress {
	prefix := networkingv1.PathTypePrefix
	ingress := &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{
			Host: host,
			IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
				Paths: []networkingv1.HTTPIngressPath{{
					Path: "/", PathType: &prefix,
					Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
						Name: service, Port: networkingv1.ServiceBackendPort{Name: "http"},
					}},
				}},
			}},
		}}},
	}
	if w.nginx {
		ingress.Annotations = nginxAnnotations()
	}
	if w.tls {
		ingress.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{host}, SecretName: name}}
	}
	return ingress
}

// nginxAnnotations returns the class of ingress-nginx and the annotations that most of
// its Ingresses have, so that each has settings of its own.
func nginxAnnotations() map[string]string {
	const prefix = "nginx.ingress.kubernetes.io/"
	return map[string]string{
		"kubernetes.io/ingress.class": "nginx",
		prefix + "ssl-redirect":       "false",
		prefix + "proxy-body-size":    "8m",
		prefix + "proxy-read-timeout": "120",
		prefix + "proxy-send-timeout": "120",
	}
}

// createCertificate creates the TLS Secret of a host. It does nothing without
// -tls.
func (w *world) createCertificate(ctx context.Context, namespace, name, host string) error {
	if !w.tls {
		return nil
	}
	// Each host has its own key, as in a real cluster.
	pair, err := pkitest.Make(pkitest.Certificate{Names: []string{host}, Until: time.Now().AddDate(0, 0, 30)}, w.certs)
	if err != nil {
		return err
	}
	// The chain includes the CA, because most real chains have two
	// certificates.
	pair.Chain += w.certs.PEM
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{labelMade: "certificate"}},
		Type:       corev1.SecretTypeTLS,
		Data:       pair.Data(),
	}
	_, err = w.Client.CoreV1().Secrets(namespace).Create(ctx, secret, metav1.CreateOptions{})
	return err
}

// published fails until every Ingress has an address in its status, or every route a
// parent in its.
func (w *world) published(ctx context.Context) error {
	if w.gateway {
		return w.routesPublished(ctx)
	}
	// Resource version 0 lets the API server respond from its watch cache
	// instead of its database.
	list, err := w.Client.NetworkingV1().Ingresses("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	missing := 0
	for i := range list.Items {
		if len(list.Items[i].Status.LoadBalancer.Ingress) == 0 {
			missing++
		}
	}
	if missing > 0 {
		return fmt.Errorf("%d Ingresses have no status", missing)
	}
	return nil
}

// newIngress prepares a further Ingress for the Service of an application. It
// creates the Secret, but not the Ingress.
func (w *world) newIngress(ctx context.Context, app int) (*networkingv1.Ingress, string, error) {
	name, host := extraName(w.extra), extraHost(w.extra)
	w.extra++
	ingress := w.ingressOf(name, host, appName(app))
	ingress.Namespace = namespaceOf(app)
	ingress.Labels = appLabels(app)
	ingress.Labels[labelMade] = "extra"
	return ingress, host, w.createCertificate(ctx, ingress.Namespace, name, host)
}

// dropExtra deletes all Ingresses that phases have created. Their Secrets stay.
func (w *world) dropExtra(ctx context.Context) error {
	for i := range namespaces {
		if err := w.drop(ctx, namespaceOf(i), labelMade+"=extra"); err != nil {
			return err
		}
	}
	return nil
}
