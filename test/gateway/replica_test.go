package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

const (
	replicaLabel     = "slipway.dev/edge-replica"
	servedAnnotation = "slipway.dev/served-versions"
)

// ownLease returns the Lease in which the edge publishes what it serves.
func (s *scene) ownLease(ctx context.Context) (*coordinationv1.Lease, error) {
	list, err := s.Client.CoordinationV1().Leases(home).List(ctx, metav1.ListOptions{LabelSelector: replicaLabel + "=slipway-edge"})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		if list.Items[i].Name != "other" {
			return &list.Items[i], nil
		}
	}
	return nil, errors.New("the edge has no Lease of its own")
}

// TestStatusWaitsForReplicas: the status of a Gateway and a route is written when another
// replica serves them, too. The edge deletes its own Lease when it stops.
func TestStatusWaitsForReplicas(t *testing.T) {
	s := newScene(t, shared(t), "--log.level=debug")
	leases := s.Client.CoordinationV1().Leases(home)
	programs.Eventually(t, func(ctx context.Context) error {
		lease, err := s.ownLease(ctx)
		if err == nil && !strings.Contains(lease.Annotations[servedAnnotation], `"gatewayclasses.gateway.networking.k8s.io":`) {
			err = fmt.Errorf("the edge serves %q", lease.Annotations[servedAnnotation])
		}
		return err
	})
	other := must.Get(leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Name: "other", Labels: map[string]string{replicaLabel: "slipway-edge"}, Annotations: map[string]string{servedAnnotation: "{}"},
	}}, metav1.CreateOptions{}))(t)

	// renew is what the other replica does, with what it serves.
	beats := 0
	renew := func(ctx context.Context, served string) error {
		beats++
		next := other.DeepCopy()
		next.Annotations = map[string]string{servedAnnotation: served, "beat": fmt.Sprint(beats)}
		next, err := leases.Update(ctx, next, metav1.UpdateOptions{})
		if err == nil {
			other = next
		}
		return err
	}

	const address = "10.244.120.20"
	s.Apply(t, s.namespace, strings.Replace(fmt.Sprintf(gatewayAndRoute, "public", "a"), "  listeners:", "  addresses: [{value: "+address+"}]\n  listeners:", 1))
	expect(t, newClient(t, nil), "http://"+address+"/same", http.StatusOK, "a added")
	for _, object := range []string{"Gateway.gateway.networking.k8s.io " + s.namespace + "/public", "HTTPRoute.gateway.networking.k8s.io " + s.namespace + "/public"} {
		programs.Eventually(t, func(ctx context.Context) error {
			if err := renew(ctx, "{}"); err != nil {
				return err
			}
			for line := range strings.Lines(s.edge.Log.String()) {
				if strings.Contains(line, "a status waits for other replicas") && strings.Contains(line, object) {
					return nil
				}
			}
			return fmt.Errorf("the status of %s does not wait", object)
		})
	}
	var gateway gatewayv1.Gateway
	must.Do(t, s.read(t.Context(), "gateways", "public", &gateway))
	var route gatewayv1.HTTPRoute
	must.Do(t, s.read(t.Context(), "httproutes", "public", &route))
	if len(gateway.Status.Addresses) > 0 || len(route.Status.Parents) > 0 {
		t.Errorf("the status is written before the other replica serves it: %+v, %+v", gateway.Status, route.Status)
	}

	programs.Eventually(t, func(ctx context.Context) error {
		lease, err := s.ownLease(ctx)
		if err != nil {
			return err
		}
		if err := renew(ctx, lease.Annotations[servedAnnotation]); err != nil {
			return err
		}
		gateway = gatewayv1.Gateway{}
		if err := s.read(ctx, "gateways", "public", &gateway); err != nil || len(gateway.Status.Addresses) == 0 {
			return fmt.Errorf("the Gateway has the status %+v: %v", gateway.Status, err)
		}
		return nil
	})
	s.programmed(t, "public")
	s.accepted(t, "public", metav1.ConditionTrue)
	s.edge.Stop(t)
	if lease, err := s.ownLease(t.Context()); err == nil {
		t.Errorf("the Lease %s of the edge that has stopped is left", lease.Name)
	}
}
