package watch

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/kube"
)

// denialsBelieved is the number of denials in a row after which a kind or a Secret
// counts as lost. An API server that starts may not serve custom kinds or RBAC
// rules yet.
const denialsBelieved = 3

// resourceOf returns the resource of a custom kind, and whether it is one.
func resourceOf(kind snapshot.Kind) (schema.GroupVersionResource, bool) {
	const ours, version = "slipway.dev", "v1alpha1"
	if group, resource, known := snapshot.TraefikResource(kind); known {
		return schema.GroupVersionResource{Group: group, Version: version, Resource: resource}, true
	}
	switch kind {
	case snapshot.ReferenceGrant:
		// Every release of Gateway API has this version, and the same fields in it.
		return schema.GroupVersionResource{Group: gatewayv1.GroupName, Version: "v1beta1", Resource: "referencegrants"}, true
	case snapshot.ConfigMap:
		return schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, true
	case snapshot.Middleware:
		return schema.GroupVersionResource{Group: ours, Version: version, Resource: "middlewares"}, true
	case snapshot.TLSOption:
		return schema.GroupVersionResource{Group: ours, Version: version, Resource: "tlsoptions"}, true
	case snapshot.Release:
		return schema.GroupVersionResource{Group: ours, Version: version, Resource: "releases"}, true
	case snapshot.BackendTransport:
		return schema.GroupVersionResource{Group: ours, Version: version, Resource: "backendtransports"}, true
	default:
		return gatewayv1.SchemeGroupVersion.WithResource(snapshot.GatewayResource(kind)), snapshot.NewGatewayObject(kind) != nil
	}
}

// customSources returns the sources of a custom kind, one for each namespace.
func (w *Watcher) customSources(ctx context.Context, kind snapshot.Kind) []source {
	resource, exists := resourceOf(kind)
	if !exists {
		return nil
	}
	standing := &kindStatus{kind: kind, watcher: w, of: map[string]snapshot.KindState{}}
	var sources []source
	scopes := w.scopes()
	if kind == snapshot.GatewayClass {
		scopes = []string{""} // they have no namespace
	}
	list := metav1.ListOptions{}
	if snapshot.IsTraefikRoute(kind) {
		list.LabelSelector = w.options.TraefikSelector
	}
	for _, namespace := range scopes {
		standing.of[namespace] = snapshot.KindPending
		part := &namespacedKind{namespace: namespace, status: standing, mirror: newMirror(ctx, w.queue, kind), timing: w.timing}
		part.mirror.listed = part.known
		if resource.Group == gatewayv1.GroupName {
			w.trackVersions(ctx, part.mirror, feedName{resource.Resource + "." + resource.Group, namespace})
		}
		sources = append(sources, source{
			name:    feedName{resource.Resource + "." + resource.Group, namespace},
			example: &unstructured.Unstructured{},
			// A client without a namespace lists all of them.
			requests: kube.NewListWatcher(w.cluster.Dynamic.Resource(resource).Namespace(namespace), list),
			store:    func(context.Context) cache.ReflectorStore { return part.mirror },
			observe:  part.observe,
			optional: true,
		})
	}
	return sources
}

// namespacedKind is a custom kind in one namespace. Only its reflector uses it, so it
// needs no lock.
type namespacedKind struct {
	namespace string
	status    *kindStatus
	mirror    *mirror
	timing    timing
	// denials counts the denials in a row.
	denials int
	was     snapshot.KindState
}

// known is called when all objects have been queued.
func (p *namespacedKind) known() { p.become(snapshot.KindKnown) }

// observe is called after a success, and after a response that the kind does not
// exist or is forbidden. It returns the delay before the next request.
func (p *namespacedKind) observe(err error) time.Duration {
	if err == nil {
		p.denials = 0
		return 0
	}
	p.denials++
	// A single denial can come from an API server that restarts; clearing all
	// objects for it would close routes.
	if p.was == snapshot.KindKnown && p.denials < denialsBelieved {
		return p.timing.first
	}
	state := snapshot.KindForbidden
	if apierrors.IsNotFound(err) {
		state = snapshot.KindMissing
		p.mirror.clear()
	}
	p.become(state)
	return backoff.Jitter(p.timing.deniedRetry, 0.3)
}

// become sets the state of the kind in this namespace.
func (p *namespacedKind) become(state snapshot.KindState) {
	p.was = state
	p.status.set(p.mirror.ctx, p.namespace, state)
}

// kindStatus is the state of a custom kind over all namespaces.
type kindStatus struct {
	kind    snapshot.Kind
	watcher *Watcher

	// mu is held while a state is queued, so that states are queued in the order
	// in which they are set.
	mu   sync.Mutex
	of   map[string]snapshot.KindState
	last snapshot.KindState
}

// set records the state of one namespace and queues that of the kind if it
// changes.
func (s *kindStatus) set(ctx context.Context, namespace string, state snapshot.KindState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[namespace] = state
	now := s.sum()
	if now == s.last {
		return
	}
	s.last = now
	// push fails only at the end of the context.
	_ = s.watcher.queue.push(ctx, item{
		event:     Event{Kind: s.kind, State: now, At: time.Now()},
		delivered: func() { s.watcher.setKindState(s.kind, now) },
	})
}

// sum returns the state of the kind as a whole. A kind exists in all namespaces or
// in none. A namespace that is forbidden does not affect the others.
func (s *kindStatus) sum() snapshot.KindState {
	count := map[snapshot.KindState]int{}
	for _, state := range s.of {
		count[state]++
	}
	switch {
	case count[snapshot.KindMissing] > 0:
		return snapshot.KindMissing
	case count[snapshot.KindPending] > 0:
		return snapshot.KindPending
	case count[snapshot.KindKnown] > 0:
		return snapshot.KindKnown
	default:
		return snapshot.KindForbidden
	}
}

// setKindState records the state of a kind that Next has delivered.
func (w *Watcher) setKindState(kind snapshot.Kind, state snapshot.KindState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kinds[kind] = state
}
