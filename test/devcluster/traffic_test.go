package devcluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"

	"slipway.dev/slipway/internal/kube/kubetest"
)

// traffic is a client that knows nothing but the EndpointSlices of a Service,
// as a proxy does: it follows them, asks ready endpoints in turn, and tries
// another one when a request fails.
type traffic struct {
	slices  discoverylisters.EndpointSliceNamespaceLister
	cancel  context.CancelFunc
	ended   chan struct{}
	answers chan string // latest version, one at most

	mu     sync.Mutex
	result trafficResult
}

// trafficResult is what the client has seen.
type trafficResult struct {
	versions []string // of the answers, in their order
	retries  int
	failures []error // requests that failed twice
}

func startTraffic(t *testing.T, cluster *kubetest.Cluster, namespace string) *traffic {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	factory := informers.NewSharedInformerFactoryWithOptions(cluster.Client, 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = ofDemo }))
	load := &traffic{
		slices: factory.Discovery().V1().EndpointSlices().Lister().EndpointSlices(namespace),
		cancel: cancel,
		ended:  make(chan struct{}), answers: make(chan string, 1),
	}
	factory.Start(ctx.Done())
	go func() {
		defer close(load.ended)
		defer factory.Shutdown()
		defer cancel()
		for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
			if !synced {
				load.fail(fmt.Errorf("no %s seen", kind))
				return
			}
		}
		load.run(ctx)
	}()
	t.Cleanup(func() { load.stop() })
	return load
}

// run sends a request each few milliseconds. The pace is only there to leave
// the machine to others.
func (l *traffic) run(ctx context.Context) {
	pace := time.NewTicker(10 * time.Millisecond)
	defer pace.Stop()
	for turn := 0; ; turn++ {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
		version, err := l.request(ctx, turn)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			l.fail(err)
			continue
		}
		l.mu.Lock()
		l.result.versions = append(l.result.versions, version)
		l.mu.Unlock()
		select {
		case <-l.answers:
		default:
		}
		l.answers <- version
	}
}

func (l *traffic) request(ctx context.Context, turn int) (string, error) {
	first, err := l.choose(turn, "")
	if err != nil {
		return "", err
	}
	version, failure := tryOnce(ctx, first)
	if failure == nil {
		return version, nil
	}
	l.mu.Lock()
	l.result.retries++
	l.mu.Unlock()
	second, err := l.choose(turn, first.pod)
	if err != nil {
		return "", errors.Join(failure, err)
	}
	version, err = tryOnce(ctx, second)
	if err != nil {
		return "", errors.Join(failure, err)
	}
	return version, nil
}

// choose takes the ready endpoint whose turn it is, but not the given Pod.
func (l *traffic) choose(turn int, not string) (endpoint, error) {
	listed, err := l.slices.List(labels.Everything())
	if err != nil {
		return endpoint{}, err
	}
	known, err := endpointsOf(listed)
	if err != nil {
		return endpoint{}, err
	}
	ready := slices.DeleteFunc(known, func(e endpoint) bool { return !e.ready || e.pod == not })
	if len(ready) == 0 {
		return endpoint{}, fmt.Errorf("no ready endpoint other than %q in %v", not, describeSlices(listed))
	}
	return ready[turn%len(ready)], nil
}

func (l *traffic) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.result.failures = append(l.result.failures, err)
}

// waitFor waits until the version responds, from now on.
func (l *traffic) waitFor(t *testing.T, version string) {
	t.Helper()
	select {
	case <-l.answers:
	default:
	}
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		select {
		case got := <-l.answers:
			if got == version {
				return
			}
		case <-l.ended:
			t.Fatalf("the client has ended: %v", l.result.failures)
		case <-deadline.C:
			t.Fatalf("no answer from %s in %s", version, patience)
		}
	}
}

func (l *traffic) stop() trafficResult {
	l.cancel()
	<-l.ended
	return l.result
}

func describeSlices(listed []*discoveryv1.EndpointSlice) []string {
	var described []string
	for _, slice := range listed {
		described = append(described, fmt.Sprintf("%s: %v", slice.Name, slice.Endpoints))
	}
	return described
}
