package ingress

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

const (
	// podGrace is how long a pod that is terminating still serves. Kubernetes
	// gives 30 s.
	podGrace = 15 * time.Second
	// unasked is how long it must have had no request by then: an edge has the rest
	// of the time to learn of it.
	unasked = podGrace / 3
	// noticed is how soon a new pod should have been asked for something.
	noticed = 8 * time.Second
	// writeTimeout bounds one request to an API server that may be away.
	writeTimeout = 2 * time.Second
)

// world is a namespace with Services whose pods this process runs.
type world struct {
	cluster   *kubetest.Cluster
	api       *kube.Cluster
	namespace string
	addresses *addresses
	services  []*service
	errors    *collector
	outage    outage
}

// outage knows since when the API server has been there without a break.
type outage struct {
	mu   sync.Mutex
	away bool
	back time.Time
}

func (o *outage) set(away bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.away, o.back = away, time.Now()
}

// over reports whether something that began then has lasted so long while the
// API server was there all the time.
func (o *outage) over(began time.Time, lasted time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.away && time.Since(began) > lasted && time.Since(o.back) > lasted
}

// service is a Service, and its pods from the oldest to the newest.
type service struct {
	world *world
	name  string
	serve protocol
	// sticky is set if clients stay with a pod until it is gone, as those of UDP do.
	sticky bool
	pods   []*pod
}

// newService makes a Service with some pods.
func (w *world) newService(t *testing.T, name string, pods int) *service {
	t.Helper()
	return w.newServiceOf(t, name, "TCP", serveHTTP, pods)
}

// newServiceOf is newService for any protocol, by TCP or UDP.
func (w *world) newServiceOf(t *testing.T, name, network string, serve protocol, pods int) *service {
	t.Helper()
	s := &service{world: w, name: name, serve: serve, sticky: network == "UDP"}
	w.services = append(w.services, s)
	for range pods {
		must.Do(t, s.grow())
	}
	t.Cleanup(func() {
		for _, p := range s.pods {
			p.cut()
		}
	})
	w.cluster.Apply(t, w.namespace, fmt.Sprintf(serviceManifest, name, network))
	must.Do(t, s.publish(t.Context()))
	return s
}

// serviceManifest is a Service with a slice that this test fills.
const serviceManifest = `
apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec: {ports: [{port: 80, targetPort: 8080, protocol: %[2]s}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: [{name: "", port: 8080, protocol: %[2]s}]
endpoints: []
`

// grow starts a pod.
func (s *service) grow() error {
	address, err := s.world.addresses.take()
	if err != nil {
		return err
	}
	p, err := startPod(s.name, address, s.serve)
	if err != nil {
		return err
	}
	s.pods = append(s.pods, p)
	return nil
}

// endpoints are the pods as Kubernetes has them.
func (s *service) endpoints() []discoveryv1.Endpoint {
	var endpoints []discoveryv1.Endpoint
	for _, p := range s.pods {
		leaving := !p.leaves.IsZero()
		ready, serving := !leaving && !p.unready, !p.unready
		endpoints = append(endpoints, discoveryv1.Endpoint{
			Addresses:  []string{p.address.String()},
			Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &leaving},
		})
	}
	return endpoints
}

// publish writes the endpoints. It tries until it has, or the context is done.
func (s *service) publish(ctx context.Context) error {
	patch, err := json.Marshal(map[string]any{"endpoints": s.endpoints()})
	if err != nil {
		return err
	}
	return s.world.write(ctx, func(ctx context.Context) error {
		_, err := s.world.api.Client.DiscoveryV1().EndpointSlices(s.world.namespace).Patch(
			ctx, s.name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}

// write repeats a request until the API server has accepted it.
func (w *world) write(ctx context.Context, request func(context.Context) error) error {
	return until(ctx, func() error {
		limited, cancel := context.WithTimeout(ctx, writeTimeout)
		defer cancel()
		return request(limited)
	})
}

// churn lets one pod come and another one go, as a rollout does.
func (s *service) churn(ctx context.Context) error {
	if err := s.bury(ctx); err != nil {
		return err
	}
	if err := s.grow(); err != nil {
		return err
	}
	for _, p := range s.pods {
		p.unready = false
	}
	oldest := s.pods[s.settled()]
	if !s.awaitFirst(ctx, oldest) {
		s.world.errors.add("a pod of %s was there for %v, and nobody asked it", s.name, time.Since(oldest.born))
	}
	oldest.leaves = time.Now()
	err := s.publish(ctx)
	oldest.leaves = time.Now() // its time begins when the cluster knows
	return err
}

// awaitFirst waits until a pod that was there for long has been asked for something, and
// reports whether it was, or may not have been. A busy machine takes its time.
func (s *service) awaitFirst(ctx context.Context, p *pod) bool {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := until(limited, func() error {
		if s.world.outage.over(p.born, noticed) && p.asked().IsZero() {
			return errors.New("it was not asked")
		}
		return nil
	})
	return err == nil || ctx.Err() != nil
}

// settled is the index of the oldest pod that does not leave. Those after it do
// not either.
func (s *service) settled() int {
	return slices.IndexFunc(s.pods, func(p *pod) bool { return p.leaves.IsZero() })
}

// doubt lets one pod report that it is not ready. The next churn takes it back.
func (s *service) doubt(ctx context.Context) error {
	s.pods[s.settled()+1].unready = true
	return s.publish(ctx)
}

// bury ends the pods whose time is over.
func (s *service) bury(ctx context.Context) error {
	for i := 0; i < len(s.pods); {
		p := s.pods[i]
		if p.leaves.IsZero() || !s.world.outage.over(p.leaves, podGrace) {
			i++
			continue
		}
		if asked := p.asked(); !s.sticky && time.Since(asked) < unasked {
			s.world.errors.add("a pod of %s is asked %v after it was said to leave", s.name, asked.Sub(p.leaves))
		}
		if err := p.end(ctx); err != nil {
			return err
		}
		s.pods = slices.Delete(s.pods, i, i+1)
		s.world.addresses.give(p.address)
	}
	return nil
}

// collector keeps the first of many errors.
type collector struct {
	mu    sync.Mutex
	count int
	first []string
}

func (c *collector) add(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	if len(c.first) < 20 {
		c.first = append(c.first, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
	}
}

// report fails the test if there is anything.
func (c *collector) report(t *testing.T, what string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count > 0 {
		t.Errorf("%d %s, such as:\n%s", c.count, what, strings.Join(c.first, "\n"))
	}
}
