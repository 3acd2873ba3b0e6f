package engine_test

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/edge/pkitest"
)

// certificates are pairs of a certificate and its key, which are of the same
// kind but not of each other.
var certificates = []pkitest.Pair{issue("one.example"), issue("two.example")}

// issue makes a certificate that vouches for itself and is valid now.
func issue(host string) pkitest.Pair {
	pair, err := pkitest.Make(pkitest.Certificate{Names: []string{host}, Until: time.Now().Add(time.Hour)}, nil)
	if err != nil {
		panic(err)
	}
	return pair
}

// serviceNamed is a Service of the namespace shop with port 80.
func serviceNamed(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}
}

// sliceOf is the EndpointSlice of a Service.
func sliceOf(service string, addresses ...string) *discoveryv1.EndpointSlice {
	name, port := "http", int32(8080)
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: service + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
	}
	for _, address := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}})
	}
	return slice
}
