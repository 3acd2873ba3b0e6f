package status

import (
	"context"
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

const otherLease = "ingress-nginx-leader"

// holdOtherLease holds the Lease of the other controller until release is called.
func holdOtherLease(t *testing.T, cluster *kubetest.Cluster, namespace string) (release func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	held, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- cluster.Elect(ctx, kube.Election{Namespace: namespace, Name: otherLease, Identity: "other", Retry: 200 * time.Millisecond},
			func(ctx context.Context) {
				close(held)
				<-ctx.Done()
			})
	}()
	select {
	case <-held:
	case <-time.After(patience):
		t.Fatal("the other controller does not get its Lease")
	}
	return func() {
		cancel()
		must.Do(t, <-ended)
	}
}

// waitOtherLease waits until the Lease of the other controller has a holder.
func waitOtherLease(t *testing.T, cluster *kubetest.Cluster, namespace, want string) {
	t.Helper()
	kubetest.WaitFor(t, cluster.Client.CoordinationV1().Leases(namespace), kube.Named(otherLease), patience,
		func(leases []*coordinationv1.Lease) error {
			if got := holderOf(leases); got != want {
				return fmt.Errorf("the Lease is held by %q, want %q", got, want)
			}
			return nil
		})
}

func holderOf(leases []*coordinationv1.Lease) string {
	if len(leases) == 0 || leases[0].Spec.HolderIdentity == nil {
		return ""
	}
	return *leases[0].Spec.HolderIdentity
}

func statusOf(t *testing.T, cluster *kubetest.Cluster, namespace, name string) string {
	t.Helper()
	ingress := must.Get(cluster.Client.NetworkingV1().Ingresses(namespace).Get(t.Context(), name, metav1.GetOptions{}))(t)
	return show(ingress.Status.LoadBalancer.Ingress)
}

// The status of a shared Ingress is written by the holder of the other controller's
// Lease. It stays as it is when the Lease is given back.
func TestSharedStatusNeedsLease(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	release := holdOtherLease(t, cluster, namespace)
	makeIngress(t, cluster, namespace, "shared", "shared")
	overwrite(t, cluster, namespace, "shared", "192.0.2.77")
	makeIngress(t, cluster, namespace, "one", "ours")
	r := start(t, cluster, namespace, Options{
		IP: "192.0.2.1", Identity: "ours", Shared: Shared{LeaseNamespace: namespace, LeaseName: otherLease},
	})
	waitStatus(t, cluster, namespace, 1, "192.0.2.1")
	makeIngress(t, cluster, namespace, "two", "ours")
	waitStatus(t, cluster, namespace, 2, "192.0.2.1")
	if got := statusOf(t, cluster, namespace, "shared"); got != "192.0.2.77" {
		t.Errorf("the status is %q while the other controller has the Lease", got)
	}

	release()
	waitStatus(t, cluster, namespace, 3, "192.0.2.1")
	waitOtherLease(t, cluster, namespace, "ours")

	r.stop()
	waitOtherLease(t, cluster, namespace, "")
	if got := statusOf(t, cluster, namespace, "shared"); got != "192.0.2.1" {
		t.Errorf("the status is %q when the Lease was given back", got)
	}
}

// Without publishing, the status of a shared Ingress is left alone, and that of others
// is written.
func TestSharedStatusUnpublished(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	makeIngress(t, cluster, namespace, "shared", "shared")
	makeIngress(t, cluster, namespace, "one", "ours")
	start(t, cluster, namespace, Options{
		IP: "192.0.2.1", Shared: Shared{Unpublished: true, LeaseNamespace: namespace, LeaseName: otherLease},
	})
	waitStatus(t, cluster, namespace, 1, "192.0.2.1")
	makeIngress(t, cluster, namespace, "two", "ours")
	waitStatus(t, cluster, namespace, 2, "192.0.2.1")
	if got := statusOf(t, cluster, namespace, "shared"); got != "" {
		t.Errorf("the status is %q", got)
	}
	if _, err := cluster.Client.CoordinationV1().Leases(namespace).Get(t.Context(), otherLease, metav1.GetOptions{}); err == nil {
		t.Error("the Lease of the other controller was created")
	}
}

// Without a Lease of the other controller, the status is written as that of others.
func TestSharedStatusWithoutLease(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	makeIngress(t, cluster, namespace, "shared", "shared")
	start(t, cluster, namespace, Options{IP: "192.0.2.1"})
	waitStatus(t, cluster, namespace, 1, "192.0.2.1")
}

// The Lease is given back only when no write of a shared status is in flight.
func TestSharedLeaseWaitsForWrites(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	makeIngress(t, cluster, namespace, "shared", "shared")
	began, finish := make(chan struct{}), make(chan struct{})
	r := start(t, cluster, namespace, Options{
		IP: "192.0.2.1", Identity: "ours", Shared: Shared{LeaseNamespace: namespace, LeaseName: otherLease},
	}, func(w *Writer) {
		apply := w.apply
		w.apply = func(_ context.Context, task statusWrite) (*networkingv1.Ingress, error) {
			close(began)
			<-finish
			return apply(context.Background(), task)
		}
	})
	<-began
	r.stop()
	// Another candidate looks at the Lease more often than ours would need to release it.
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	must.Do(t, cluster.Elect(ctx, kube.Election{Namespace: namespace, Name: otherLease, Identity: "other", Retry: 100 * time.Millisecond},
		func(context.Context) { t.Error("the Lease was given back while a write was in flight") }))
	close(finish)
	waitOtherLease(t, cluster, namespace, "")
	if got := statusOf(t, cluster, namespace, "shared"); got != "192.0.2.1" {
		t.Errorf("the status is %q", got)
	}
}
