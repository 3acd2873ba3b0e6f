package ingress

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"slipway.dev/slipway/internal/gitops/health"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// place is the namespace, kind and name of an object that is written KIND/NAME,
// or KIND/NAMESPACE/NAME.
func (c *scene) place(t *testing.T, text string) (namespace, kind, name string) {
	t.Helper()
	words := strings.Split(text, "/")
	switch len(words) {
	case 2:
		return c.namespace, words[0], words[1]
	case 3:
		return words[1], words[0], words[2]
	}
	t.Fatalf("%q is not KIND/NAME", text)
	return "", "", ""
}

// awaitEvent waits for an Event about an object.
func (c *scene) awaitEvent(t *testing.T, object, reason, text string) {
	t.Helper()
	namespace, kind, name := c.place(t, object)
	kubetest.WaitFor(t, c.suite.kube.Client.EventsV1().Events(namespace), metav1.ListOptions{}, patience,
		func(events []*eventsv1.Event) error {
			for _, event := range events {
				if isAbout(event, kind, name) && event.Reason == reason && strings.Contains(event.Note, text) {
					return nil
				}
			}
			return fmt.Errorf("there is no Event %s about %s with %q", reason, object, text)
		})
}

func isAbout(event *eventsv1.Event, kind, name string) bool {
	return event.Regarding.Kind == kind && event.Regarding.Name == name
}

// refuseEvent fails if there is a warning about an object.
func (c *scene) refuseEvent(t *testing.T, object string) {
	t.Helper()
	namespace, kind, name := c.place(t, object)
	events := must.Get(c.suite.kube.Client.EventsV1().Events(namespace).List(t.Context(), metav1.ListOptions{}))(t)
	for i := range events.Items {
		if event := &events.Items[i]; isAbout(event, kind, name) && event.Type == "Warning" {
			t.Errorf("there is an Event %s about %s: %s", event.Reason, object, event.Note)
		}
	}
}

// awaitStatus waits until the status of an Ingress has these addresses and no
// others. A port of an address is written behind it, and an error of ours behind
// that: 192.0.2.1:443=NoEndpoints.
func (c *scene) awaitStatus(t *testing.T, name, addresses string) {
	t.Helper()
	var want []string
	for word := range strings.SplitSeq(addresses, ",") {
		if word = strings.TrimSpace(word); word != "" {
			want = append(want, word)
		}
	}
	slices.Sort(want)
	namespace, _, own := c.place(t, "Ingress/"+name)
	kubetest.WaitFor(t, c.suite.kube.Client.NetworkingV1().Ingresses(namespace), kube.Named(own), patience,
		func(found []*networkingv1.Ingress) error {
			if len(found) != 1 {
				return fmt.Errorf("there is no Ingress %s", name)
			}
			var got []string
			for _, entry := range found[0].Status.LoadBalancer.Ingress {
				address := strings.Trim(entry.IP+"/"+entry.Hostname, "/")
				for _, port := range entry.Ports {
					address += fmt.Sprintf(":%d", port.Port)
					if port.Error != nil {
						address += "=" + strings.TrimPrefix(*port.Error, "slipway.dev/")
					}
				}
				got = append(got, address)
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				return fmt.Errorf("the status of %s has %v, want %v", name, got, want)
			}
			return nil
		})
}

// awaitHealth waits until an Ingress is as GitOps is to find it.
func (c *scene) awaitHealth(t *testing.T, name, code, text string) {
	t.Helper()
	namespace, _, own := c.place(t, "Ingress/"+name)
	kubetest.WaitFor(t, c.suite.kube.Client.NetworkingV1().Ingresses(namespace), kube.Named(own), patience,
		func(found []*networkingv1.Ingress) error {
			if len(found) != 1 {
				return fmt.Errorf("there is no Ingress %s", name)
			}
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(found[0])
			if err != nil {
				return err
			}
			live := &unstructured.Unstructured{Object: content}
			live.SetGroupVersionKind(networkingv1.SchemeGroupVersion.WithKind("Ingress"))
			got := health.NewRules(nil).Of(live, time.Now())
			if got == nil || string(got.Code) != code || !strings.Contains(got.Message, text) {
				return fmt.Errorf("%s is %+v, want %s with %q", name, got, code, text)
			}
			return nil
		})
}

// setBalancer gives a Service of type LoadBalancer its addresses, as the
// controller of a cloud does.
func (c *scene) setBalancer(t *testing.T, service, addresses string) {
	t.Helper()
	namespace, _, name := c.place(t, "Service/"+service)
	services := c.suite.kube.Client.CoreV1().Services(namespace)
	found := must.Get(services.Get(t.Context(), name, metav1.GetOptions{}))(t)
	found.Status.LoadBalancer.Ingress = nil
	for word := range strings.SplitSeq(addresses, ",") {
		entry := corev1.LoadBalancerIngress{Hostname: strings.TrimSpace(word)}
		if net.ParseIP(entry.Hostname) != nil {
			entry.IP, entry.Hostname = entry.Hostname, ""
		}
		found.Status.LoadBalancer.Ingress = append(found.Status.LoadBalancer.Ingress, entry)
	}
	must.Get(services.UpdateStatus(t.Context(), found, metav1.UpdateOptions{}))(t)
}

// remove deletes an object of the case.
func (c *scene) remove(t *testing.T, object string) {
	t.Helper()
	namespace, kind, name := c.place(t, object)
	api, options := c.suite.kube.Client, metav1.DeleteOptions{}
	var err error
	switch kind {
	case "Ingress":
		err = api.NetworkingV1().Ingresses(namespace).Delete(t.Context(), name, options)
	case "IngressClass":
		err = api.NetworkingV1().IngressClasses().Delete(t.Context(), name, options)
	case "Service":
		err = api.CoreV1().Services(namespace).Delete(t.Context(), name, options)
	case "Secret":
		err = api.CoreV1().Secrets(namespace).Delete(t.Context(), name, options)
	case "EndpointSlice":
		err = api.DiscoveryV1().EndpointSlices(namespace).Delete(t.Context(), name, options)
	default:
		t.Fatalf("a step cannot delete a %s", kind)
	}
	must.Do(t, err)
}
