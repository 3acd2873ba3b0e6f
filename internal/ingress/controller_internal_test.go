package ingress

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/status"
	"slipway.dev/slipway/internal/ingress/watch"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

// TestTimeIsAChange: a certificate that runs out while nothing happens in the
// cluster is noticed within a minute, and the edge gets the change. A controller that
// has nothing to notice sends nothing.
func TestTimeIsAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Nothing is asked of it: the watcher does not run.
		nobody := must.Get(kube.ConnectAs(kube.ConnectOptions{Endpoint: "http://127.0.0.1:1", Environ: func(string) string { return "" }}))(t)
		watcher := must.Get(watch.New(nobody, watch.Options{}))(t)
		var mu sync.Mutex
		var told []*route.Change
		c := New(watcher, status.New(nobody, status.Options{}), Options{
			Apply: func(change *route.Change) Feedback {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, change)
				return Feedback{}
			},
			Live: func() {}, Log: slog.New(slog.DiscardHandler),
			Metrics: NewMetrics(prometheus.NewRegistry(), func() time.Duration { return 0 }),
		})
		c.engine = engine.New(c.snapshot, c.options.Resolve)
		c.snapshot.Put(securedIngress())
		c.snapshot.Put(certificateUntil(t, time.Now().Add(time.Hour)))
		c.engine.All()
		c.goLive()

		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = c.Run(ctx) }) // it ends with the context
		passes := func(span time.Duration, want int) {
			t.Helper()
			<-time.After(span)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if len(told) != want {
				t.Errorf("after %s the edge was told of %d changes, want %d", span, len(told), want)
			}
		}
		passes(59*time.Minute, 0)
		passes(2*validityInterval, 1)
		passes(24*time.Hour, 1)
		stop()
		running.Wait()
		if len(told) == 1 && len(told[0].Certificates.Changed) != 1 {
			t.Errorf("told: %+v", told[0])
		}
		site := snapshot.Ref{Kind: snapshot.Ingress, Namespace: "shop", Name: "cart"}
		if !c.engine.Condition(site).CertificateNotReady {
			t.Errorf("the Ingress is %+v", c.engine.Condition(site))
		}
	})
}

func securedIngress() *networkingv1.Ingress {
	return &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"},
		Spec: networkingv1.IngressSpec{
			Rules: []networkingv1.IngressRule{{Host: "one.example"}},
			TLS:   []networkingv1.IngressTLS{{SecretName: "cert"}},
		},
	}
}

// certificateUntil is a Secret with a certificate that is valid until then.
func certificateUntil(t *testing.T, end time.Time) *snapshot.SecretBody {
	t.Helper()
	pair := pkitest.SelfSigned(t, pkitest.Certificate{Names: []string{"one.example"}, From: end.AddDate(-1, 0, 0), Until: end})
	return &snapshot.SecretBody{Namespace: "shop", Name: "cert", Data: pair.Data()}
}
