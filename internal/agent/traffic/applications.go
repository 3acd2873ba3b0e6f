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
	"slipway.dev/slipway/internal/gitops/source/remote"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
)

// objectKey names an object without its version.
type objectKey struct{ group, kind, namespace, name string }

// appFacts is what is told of an Application.
type appFacts struct {
	place                tracking.App
	sync, health         string
	project, repoURL     string
	revision             string
	deployedAt           time.Time
	owned                []objectKey
	uid, resourceVersion string
}

// appIndex says which Application has which object of this cluster. It does not
// change; a new one has another number.
type appIndex struct {
	number int
	byKey  map[objectKey]*appFacts
}

func (x *appIndex) of(key objectKey) *appFacts {
	if x == nil {
		return nil
	}
	return x.byKey[key]
}

// appBook follows the Applications while somebody watches.
type appBook struct {
	source func(namespace string) dynamic.ResourceInterface
	// namespaces have Applications; metav1.NamespaceAll is every one.
	namespaces []string
	log        *slog.Logger

	mu    sync.Mutex
	facts map[string]map[tracking.App]*appFacts // by namespace that is followed
	dirty bool
	index *appIndex
}

// follow keeps the book until the context is done.
func (b *appBook) follow(ctx context.Context) {
	var all sync.WaitGroup
	for _, namespace := range b.namespaces {
		all.Go(func() {
			err := kube.Follow(ctx, b.source(namespace), metav1.ListOptions{}, nil, func(found []*unstructured.Unstructured) {
				b.saw(namespace, found)
			})
			b.log.Debug("nobody watches traffic any more", "namespace", namespace, observe.KeyError, err)
		})
	}
	all.Wait()
}

// saw takes all Applications of a namespace. Those that have not changed are not
// read again.
func (b *appBook) saw(namespace string, found []*unstructured.Unstructured) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.facts[namespace]
	next := make(map[tracking.App]*appFacts, len(found))
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

// current is the index of what was seen last.
func (b *appBook) current() *appIndex {
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
				// Of two that say so, it is always the same.
				if other := next.byKey[key]; other == nil || app.place.String() < other.place.String() {
					next.byKey[key] = app
				}
			}
		}
	}
	b.dirty, b.index = false, next
	return next
}

// readFacts takes from an Application what is told of it.
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
	facts.repoURL = remote.Redact(facts.repoURL)
	if project.Complete(app.Spec.Destination).Server != project.LocalServer {
		return facts // its objects are in a cluster that these edges do not serve
	}
	for i := range app.Status.Resources {
		resource := &app.Status.Resources[i]
		if !resource.Hook && interesting(resource.Kind) {
			facts.owned = append(facts.owned, objectKey{resource.Group, resource.Kind, resource.Namespace, resource.Name})
		}
	}
	return facts
}

// interesting reports whether a kind is one that routes come from, or lead to.
func interesting(kind string) bool {
	return slices.Contains([]string{"Ingress", "Service", "Secret", "Middleware", "TLSOption", "BackendTransport", "ServersTransport"}, kind)
}

// keyOf names the object of a route or a refusal. Kinds that are not part of
// Kubernetes have their group behind their name.
func keyOf(kind, namespace, name string) objectKey {
	short, group, custom := strings.Cut(kind, ".")
	if !custom {
		switch kind {
		case "Ingress", "IngressClass":
			group = "networking.k8s.io"
		case "EndpointSlice":
			short = "Service" // all slices of a Service go under its name
		}
	}
	return objectKey{group, short, namespace, name}
}
