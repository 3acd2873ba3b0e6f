package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	wideName = "wide"
	wideHost = wideName + ".bench.test"
	// sliceLimit is the maximum number of endpoints in an EndpointSlice that
	// the API server accepts.
	sliceLimit = 1000
)

// createWide creates one Ingress whose Service has as many endpoints as that
// many applications have together. The addresses are those of the applications,
// so the backend serves them already.
func (w *world) createWide(ctx context.Context, endpoints int) error {
	namespace := namespaceOf(0)
	if _, err := w.Client.CoreV1().Services(namespace).Create(ctx, serviceOf(wideName, nil), metav1.CreateOptions{}); err != nil {
		return err
	}
	for begin := 0; begin < endpoints; begin += sliceLimit {
		var addresses []netip.Addr
		for i := begin; i < min(begin+sliceLimit, endpoints); i++ {
			addresses = append(addresses, endpointOf(i, false))
		}
		slice := newSlice(fmt.Sprintf("%s-%d", wideName, begin), wideName, map[string]string{}, addresses...)
		if _, err := w.Client.DiscoveryV1().EndpointSlices(namespace).Create(ctx, slice, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	if err := w.createCertificate(ctx, namespace, wideName, wideHost); err != nil {
		return err
	}
	ingress := w.ingressOf(wideName, wideHost, wideName)
	ingress.Namespace, ingress.Labels = namespace, map[string]string{labelMade: wideName}
	_, err := w.put(ctx, ingress)
	return err
}

// deleteWide deletes the objects of createWide. It tries all of them even if
// one fails.
func (w *world) deleteWide(ctx context.Context) error {
	namespace := namespaceOf(0)
	errs := []error{
		w.drop(ctx, namespace, labelMade+"="+wideName),
		w.Client.CoreV1().Services(namespace).Delete(ctx, wideName, metav1.DeleteOptions{}),
		w.Client.DiscoveryV1().EndpointSlices(namespace).DeleteCollection(ctx, metav1.DeleteOptions{},
			metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=" + wideName}),
	}
	if w.tls {
		errs = append(errs, w.Client.CoreV1().Secrets(namespace).Delete(ctx, wideName, metav1.DeleteOptions{}))
	}
	return errors.Join(errs...)
}
