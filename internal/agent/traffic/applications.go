package traffic

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/source/address"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
)

// objectKey identifies an object without its version.
type objectKey struct{ group, kind, namespace, name string }

// appFacts is the part of an Application that the table shows.
type appFacts struct {
	// place identifies the Application.
	place            tracking.App
	sync, health     string
	project, repoURL string
	// revision and deployedAt are those of the last sync.
	revision   string
	deployedAt time.Time
	// owned are its objects that routes come from or lead to.
	owned []objectKey
	// uid and resourceVersion detect changes.
	uid, resourceVersion string
}

// appIndex finds the Application of an object of this cluster. It is immutable;
// a new one has another number.
type appIndex struct {
	number int
	byKey  map[objectKey]*appFacts
}

// find returns the Application that has an object; nil if none has. It works on
// a nil index.
func (x *appIndex) find(key objectKey) *appFacts {
	if x == nil {
		return nil
	}
	return x.byKey[key]
}

// appWatcher watches the Applications while there are streams.
type appWatcher struct {
	source func(namespace string) dynamic.ResourceInterface
	// namespaces have Applications; metav1.NamespaceAll is every one.
	namespaces []string
	log        *slog.Logger

	mu sync.Mutex
	// mu guards these. facts are by watched namespace; dirty means that the
	// index must be rebuilt.
	facts map[string]map[tracking.App]*appFacts // by namespace that is followed
	dirty bool
	index *appIndex
}

// follow watches until the context is done.
func (b *appWatcher) follow(ctx context.Context) {
	var all sync.WaitGroup
	for _, namespace := range b.namespaces {
		all.Go(func() {
			err := kube.Follow(ctx, b.source(namespace), metav1.ListOptions{}, nil, func(found []*unstructured.Unstructured) {
				b.update(namespace, found)
			})
			b.log.Debug("stopped watching Applications", "namespace", namespace, observe.KeyError, err)
		})
	}
	all.Wait()
}

// update takes all Applications of a namespace. Those that have not changed are
// not decoded again.
func (b *appWatcher) update(namespace string, found []*unstructured.Unstructured) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.facts[namespace]
	next := make(map[tracking.App]*appFacts, len(found))
	// Versions are compared one by one.
	changed := len(before) != len(found)
	for _, object := range found {
		at := tracking.App{Namespace: object.GetNamespace(), Name: object.GetName()}
		known := before[at]
		if known == nil || known.uid != string(object.GetUID()) || known.resourceVersion != object.GetResourceVersion() {
			known, changed = readFacts(object), true
		}
		next[at] = known
	}
	if b.facts == nil {
		b.facts = map[string]map[tracking.App]*appFacts{}
	}
	b.facts[namespace] = next
	b.dirty = b.dirty || changed
}

// current returns an index of the last state. It is rebuilt only after a
// change.
func (b *appWatcher) current() *appIndex {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.dirty && b.index != nil {
		return b.index
	}
	next := &appIndex{byKey: map[objectKey]*appFacts{}}
	if b.index != nil {
		next.number = b.index.number + 1
	}
	for _, apps := range b.facts {
		for _, app := range apps {
			for _, key := range app.owned {
				// Two Applications may list the same object. The first by name
				// counts, so that the table is stable.
				if other := next.byKey[key]; other == nil || app.place.String() < other.place.String() {
					next.byKey[key] = app
				}
			}
		}
	}
	b.dirty, b.index = false, next
	return next
}

// readFacts extracts the shown part of an Application.
func readFacts(object *unstructured.Unstructured) *appFacts {
	facts := &appFacts{
		place: tracking.App{Namespace: object.GetNamespace(), Name: object.GetName()},
		uid:   string(object.GetUID()), resourceVersion: object.GetResourceVersion(),
	}
	app, _, err := v1alpha1.Decode(object.Object)
	if err != nil {
		return facts // it has nothing that routes could come from
	}
	facts.sync, facts.health, facts.project = string(app.Status.Sync.Status), string(app.Status.Health.Status), app.Spec.Project
	facts.revision = app.Status.Sync.Revision
	if app.Spec.Source != nil {
		facts.repoURL = app.Spec.Source.RepoURL
	}
	// The history has what is deployed; the sync status has what was compared
	// last.
	if last := len(app.Status.History) - 1; last >= 0 {
		entry := &app.Status.History[last]
		facts.deployedAt = entry.DeployedAt.Time
		if entry.Revision != "" {
			facts.revision = entry.Revision
		}
		if entry.Source != nil {
			facts.repoURL = entry.Source.RepoURL
		}
	}
	// Addresses may contain a password.
	facts.repoURL = address.Redact(facts.repoURL)
	if project.Complete(app.Spec.Destination).Server != project.LocalServer {
		return facts // its objects are in a cluster that these edges do not serve
	}
	for i := range app.Status.Resources {
		resource := &app.Status.Resources[i]
		if !resource.Hook && isRouteKind(resource.Kind) {
			facts.owned = append(facts.owned, objectKey{resource.Group, resource.Kind, resource.Namespace, resource.Name})
		}
	}
	return facts
}

// isRouteKind reports whether routes come from a kind or lead to it. Other
// objects are not indexed, to keep the index small.
func isRouteKind(kind string) bool {
	return isGatewayKind(kind) ||
		slices.Contains([]string{"Ingress", "Service", "Secret", "Middleware", "TLSOption", "BackendTransport", "ServersTransport"}, kind)
}

// isGatewayKind reports whether a kind is one of Gateway API that rules come from.
// Rules have no group.
func isGatewayKind(kind string) bool {
	return slices.Contains([]string{"Gateway", "ListenerSet", "HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute"}, kind)
}

// keyOf returns the object of a route or a refusal. Kinds outside of Kubernetes
// have their group in the name.
func keyOf(kind, namespace, name string) objectKey {
	short, group, custom := strings.Cut(kind, ".")
	if !custom {
		switch {
		case kind == "Ingress", kind == "IngressClass":
			group = "networking.k8s.io"
		case kind == "EndpointSlice":
			short = "Service" // all slices of a Service go under its name
		case isGatewayKind(kind):
			group = "gateway.networking.k8s.io"
		}
	}
	return objectKey{group, short, namespace, name}
}
