package ingress

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
)

// checkServed: everything that is read is served.
func (c *rights) checkServed(t *testing.T, e *rightsEdge) {
	t.Helper()
	hosts := []string{plainHost, secretHost}
	if !e.namespaced {
		hosts = append(hosts, classHost)
	}
	for _, host := range customHosts() {
		hosts = append(hosts, host)
	}
	for _, host := range hosts {
		if err := e.served(t.Context(), host); err != nil {
			t.Error(err)
		}
	}
}

// checkWritten: status and Events are written. An Event that was there before is
// counted on.
func (c *rights) checkWritten(t *testing.T, e *rightsEdge, again bool) {
	t.Helper()
	kubetest.WaitFor(t, c.api.Client.NetworkingV1().Ingresses(c.namespace), kube.Named("plain"), patience,
		func(found []*networkingv1.Ingress) error {
			for _, ingress := range found {
				if balancer := ingress.Status.LoadBalancer.Ingress; len(balancer) == 1 && balancer[0].IP == e.address {
					return nil
				}
			}
			return errors.New("no status")
		})
	kubetest.WaitFor(t, c.api.Client.EventsV1().Events(c.namespace), metav1.ListOptions{}, patience,
		func(found []*eventsv1.Event) error {
			i := slices.IndexFunc(found, func(event *eventsv1.Event) bool {
				return event.Regarding.Name == "refused" && event.Type == "Warning" && (event.Series != nil || !again)
			})
			if i < 0 {
				return errors.New("no Event")
			}
			return nil
		})
}

// symptom is nil when it shows that a right is missing: what does not work, and
// where it is reported.
func (c *rights) symptom(t *testing.T, e *rightsEdge, missing right) error {
	t.Helper()
	if host, custom := customHosts()[missing.resource+"."+missing.group]; custom {
		return c.broken(t, e, host)
	}
	switch missing.resource {
	case "secrets":
		if missing.verb == "get" {
			return c.broken(t, e, secretHost)
		}
		// What changes is noticed late.
		return e.tells("watch of Secrets is forbidden")
	case "releases", "pods", "replicasets":
		// Requests are not divided between revisions; everything is served.
		name := missing.resource
		if missing.group == "slipway.dev" {
			name += "." + missing.group
		}
		return errors.Join(e.tells("cannot read from the cluster", `"resource":"`+name+`"`, "forbidden"), e.replica.Ready(t.Context()))
	case "leases":
		return e.tells("leader election failed", "forbidden")
	case "ingresses/status":
		return errors.Join(e.tells("write of a status failed", "forbidden"), e.counts(t, "slipway_ingress_status_writes_total"))
	case "events":
		return errors.Join(e.tells("write of an Event failed", "forbidden"), e.counts(t, "slipway_ingress_events_total"))
	}
	_, text, err := e.replica.Page(t.Context(), "/readyz")
	if err == nil && (!strings.Contains(text, missing.resource+": ") || !strings.Contains(text, "forbidden")) {
		err = fmt.Errorf("readyz says %q", text)
	}
	return errors.Join(err, e.tells("cannot read from the cluster", `"resource":"`+missing.resource+`"`, "forbidden"))
}

// broken is nil when a host is not served though others are.
func (c *rights) broken(t *testing.T, e *rightsEdge, host string) error {
	t.Helper()
	if err := e.replica.Ready(t.Context()); err != nil {
		return err
	}
	if err := e.served(t.Context(), plainHost); err != nil {
		return err
	}
	if e.served(t.Context(), host) == nil {
		return fmt.Errorf("%s is served all the same", host)
	}
	return nil
}

// tells is nil when a line of the log has some words.
func (e *rightsEdge) tells(words ...string) error {
	if !e.replica.Logged(words...) {
		return fmt.Errorf("the log does not say %q", words)
	}
	return nil
}

// counts is nil when something is counted as failed.
func (e *rightsEdge) counts(t *testing.T, metric string) error {
	t.Helper()
	failed, err := e.replica.Metric(t.Context(), metric, `result="failed"`)
	if err == nil && failed == 0 {
		err = fmt.Errorf("no failure in %s", metric)
	}
	return err
}
