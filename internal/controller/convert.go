package controller

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/edge"
	"slipway.dev/slipway/internal/ingress/backend"
	"slipway.dev/slipway/internal/ingress/convert"
	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// probeAddress is the endpoint that each Service has besides its own, so that routes
// lead somewhere in manifests, which have no endpoints. It is for documentation.
const probeAddress = "192.0.2.1"

// Conversion are the Gateways and routes for Ingresses, with the comparison of what
// serves requests before and after.
type Conversion struct {
	*convert.Result
	// Compared is the number of requests that were compared, and Differences has
	// those that are handled otherwise.
	Compared    int
	Differences []Difference
}

// Difference is a request that is handled otherwise after the conversion.
type Difference struct {
	Ingress string `json:"ingress"`
	URL     string `json:"url"`
	Before  string `json:"before"`
	After   string `json:"after"`
}

// Convert writes Gateways and routes for the Ingresses that this edge serves. It
// builds the routes of both by the code of a running edge, and compares which Service
// gets the requests of each host and path, and how. Load must have succeeded; the
// Offline has the converted objects afterwards.
func (o *Offline) Convert(ctx context.Context, options convert.Options) (*Conversion, error) {
	options.EntryPoints = map[string]bool{}
	for name, point := range o.Options.EntryPoints {
		if _, udp := point.Listen(); !udp {
			options.EntryPoints[name] = point.HTTP.TLS
		}
	}
	o.addProbeEndpoints()
	before, err := o.rebuild(ctx)
	if err != nil {
		return nil, err
	}
	defer before.Close()
	ingresses := o.convertible(before)
	result := &Conversion{Result: convert.Ingresses(ingresses, options)}
	for _, place := range result.Places {
		o.facts.Delete(snapshot.Ingress, place.Ingress.Namespace, place.Ingress.Name)
	}
	if err := o.addConverted(result.Result); err != nil {
		return nil, err
	}
	after, err := o.rebuild(ctx)
	if err != nil {
		return nil, err
	}
	defer after.Close()
	comparison{before: tableOf(before), after: tableOf(after), points: options.EntryPoints, result: result}.run(ingresses)
	return result, nil
}

// rebuild builds the routes of the current facts with a proxy of their own.
func (o *Offline) rebuild(ctx context.Context) (*edge.Server, error) {
	server, err := o.newServer(ctx)
	if err != nil {
		return nil, err
	}
	o.engine = buildRoutes(o.facts, server, o.Options)
	return server, nil
}

// addProbeEndpoints adds an endpoint to each Service, and the Services that Ingresses
// name and that are missing: what is compared is where requests go, and not whether
// the Service is up, or in the manifests.
func (o *Offline) addProbeEndpoints() {
	view := o.facts.View()
	ours, _ := o.Sites()
	for _, ref := range ours {
		spec := &o.facts.Ingress(ref.Namespace, ref.Name).Spec
		for i := range spec.Rules {
			if spec.Rules[i].HTTP == nil {
				continue
			}
			for j := range spec.Rules[i].HTTP.Paths {
				service := spec.Rules[i].HTTP.Paths[j].Backend.Service
				if service != nil && service.Port.Number != 0 && view.Service(ref.Namespace, service.Name) == nil {
					o.facts.Put(&corev1.Service{
						ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: service.Name},
						Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: service.Port.Number, TargetPort: intstr.FromInt32(service.Port.Number)}}},
					})
				}
			}
		}
	}
	for namespace, name := range o.facts.Names(snapshot.Service) {
		service := view.Service(namespace, name)
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: name + "-slipway-migrate", Labels: map[string]string{discoveryv1.LabelServiceName: name},
			},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{probeAddress}}},
		}
		for i := range service.Spec.Ports {
			port := &service.Spec.Ports[i]
			slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &port.Name, Port: &port.Port})
		}
		o.facts.Put(slice)
	}
}

// convertible returns the Ingresses that this edge serves, resolved as they were for
// the table of a proxy.
func (o *Offline) convertible(server *edge.Server) []convert.Ingress {
	view, options := o.facts.View(), resolveOptions(o.Options, "")
	owners := map[string]string{}
	for _, rule := range server.Table().Rules {
		owners[rule.Host] = rule.HostOwner.Namespace
	}
	ours, _ := o.Sites()
	var all []convert.Ingress
	for _, ref := range ours {
		all = append(all, convert.Ingress{
			Object:   o.facts.Ingress(ref.Namespace, ref.Name),
			Resolved: resolve.Ingress(view, ref.Namespace, ref.Name, options, summaries{o.engine}),
			OwnerOf:  func(host string) string { return owners[host] },
			PortOf: func(service, port string) int32 {
				object := view.Service(ref.Namespace, service)
				if object == nil {
					return 0
				}
				at := slices.IndexFunc(object.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == port })
				if at < 0 {
					return 0
				}
				return object.Spec.Ports[at].Port
			},
			SameTransport: func(id route.BackendID) bool {
				given := backend.Options{
					ExternalNames: options.ExternalNames, NativeByDefault: options.NativeByDefault, DisablePassHost: options.DisablePassHost,
					NoClusterScope: options.NoClusterScope, CrossNamespace: options.CrossNamespace,
				}
				own := backend.Build(view, id, given)
				id.Variant = backend.RouteVariant
				return reflect.DeepEqual(own.Backend.Transport, backend.Build(view, id, given).Backend.Transport)
			},
		})
	}
	return all
}

// summaries resolves backends that an engine has built.
type summaries struct{ engine *engine.Engine }

// Summary implements resolve.BackendResolver.
func (s summaries) Summary(id route.BackendID) resolve.BackendSummary {
	built, known := s.engine.Backend(id)
	if !known {
		return resolve.BackendSummary{}
	}
	return resolve.BackendSummary{Closed: built.Closed, Empty: len(built.Backend.Endpoints) == 0, Timeouts: built.Timeouts}
}

// addConverted adds the objects of a conversion to the facts, with what a cluster has
// besides: the class, and the label of each namespace with its name.
func (o *Offline) addConverted(result *convert.Result) error {
	o.assumeClasses()
	view := o.facts.View()
	label := func(namespace string) {
		labels := map[string]string{corev1.LabelMetadataName: namespace}
		maps.Copy(labels, view.NamespaceLabels(namespace))
		o.facts.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: labels}})
	}
	for _, object := range result.Gateways {
		o.facts.Put(object)
		if err := o.addProbeCertificates(object); err != nil {
			return err
		}
	}
	for _, object := range result.Routes {
		label(object.Namespace)
		o.facts.Put(object)
	}
	for _, object := range result.Grants {
		o.facts.Put(object)
	}
	return nil
}

// addProbeCertificates adds the Secrets of a Gateway that are missing: they should not
// be in Git, and a listener without its certificate is not served. The key is used for
// nothing.
func (o *Offline) addProbeCertificates(gateway *gatewayv1.Gateway) error {
	view := o.facts.View()
	for i := range gateway.Spec.Listeners {
		l := &gateway.Spec.Listeners[i]
		if l.TLS == nil {
			continue
		}
		for _, ref := range l.TLS.CertificateRefs {
			namespace := gateway.Namespace
			if ref.Namespace != nil {
				namespace = string(*ref.Namespace)
			}
			if view.Secret(namespace, string(ref.Name)) != nil {
				continue
			}
			data, err := selfSigned(string(*l.Hostname))
			if err != nil {
				return err
			}
			o.facts.Put(&snapshot.SecretBody{Namespace: namespace, Name: string(ref.Name), Type: string(corev1.SecretTypeTLS), Data: data})
		}
	}
	return nil
}

// selfSigned returns the data of a Secret with a certificate for a host.
func selfSigned(host string) (map[string][]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{host}, NotAfter: time.Now().Add(time.Hour)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		corev1.TLSCertKey:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}),
	}, nil
}
