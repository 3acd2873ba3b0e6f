package live

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/kube"
)

const (
	// discoveryPause is the least time between two discoveries because of a
	// kind that is not known, and between two after Invalidate, which is
	// shorter.
	discoveryPause = 5 * time.Second
	invalidPause   = 500 * time.Millisecond
	// discoveryAge is how old the versions for Helm may be: a cluster that was
	// upgraded is noticed after that.
	discoveryAge = 10 * time.Minute
	// discoveryTimeout bounds one discovery.
	discoveryTimeout = 30 * time.Second
	// scopeTimeout is how long Scope waits for one.
	scopeTimeout = 10 * time.Second
	// learnedFor is how long a definition is believed that discovery does not
	// show: the API server serves a kind a little before it lists it.
	learnedFor = 30 * time.Second
)

// UnknownKind is the error of a kind that the cluster does not have.
type UnknownKind struct {
	Kind schema.GroupVersionKind
	// Versions are those in which the cluster has the kind.
	Versions []string
}

// Error names the versions that the cluster has instead.
func (e *UnknownKind) Error() string {
	name := e.Kind.GroupKind().String()
	if len(e.Versions) == 0 {
		return fmt.Sprintf("the cluster does not have the kind %s: install its CustomResourceDefinition first", name)
	}
	return fmt.Sprintf("the cluster does not have the kind %s in version %s: use %s", name, e.Kind.Version, strings.Join(e.Versions, " or "))
}

// Kinds caches the kinds of a cluster. It is safe for concurrent use.
type Kinds struct {
	discover func(context.Context, *directory) (*directory, error)
	now      func() time.Time

	mu sync.Mutex
	// known is nil before the first discovery. It is replaced, never changed.
	known *directory
	// requestedAt is when the last discovery began, even if it failed.
	requestedAt time.Time
	invalid     bool
	learned     map[schema.GroupKind]lesson
	// under is closed when the discovery that is under way has ended.
	under   chan struct{}
	failure error
}

// lesson is a kind that was learned from its definition.
type lesson struct {
	entry *entry
	until time.Time
}

// NewKinds makes an empty cache. It sends no request before the first lookup.
func NewKinds(cluster *kube.Cluster) *Kinds {
	return &Kinds{discover: discoverer(cluster), now: time.Now, learned: map[schema.GroupKind]lesson{}}
}

// Scope returns whether objects of a kind have a namespace, for plan.Source.
func (k *Kinds) Scope(kind schema.GroupKind) plan.Scope {
	ctx, cancel := context.WithTimeout(context.Background(), scopeTimeout)
	defer cancel()
	entry, err := k.find(ctx, kind, "")
	switch {
	case err != nil:
		return plan.UnknownScope
	case entry.namespaced:
		return plan.NamespaceScope
	}
	return plan.ClusterScope
}

// Mapping returns where the objects of a kind are, in the version that is
// given, or without one in the version that the cluster prefers. The error of a
// kind that is not there is an *UnknownKind.
func (k *Kinds) Mapping(ctx context.Context, kind schema.GroupVersionKind) (Mapping, error) {
	entry, err := k.find(ctx, kind.GroupKind(), kind.Version)
	if err != nil {
		return Mapping{}, err
	}
	served := entry.version(kind.Version)
	return Mapping{
		Resource:   schema.GroupVersionResource{Group: kind.Group, Version: served.name, Resource: served.resource},
		Namespaced: entry.namespaced,
	}, nil
}

// Version is the version of the API server, such as v1.37.1, and what it
// serves, in the form that Helm uses: v1, apps/v1, apps/v1/Deployment.
func (k *Kinds) Version(ctx context.Context) (kubeVersion string, apiVersions []string, err error) {
	return k.version(ctx, discoveryAge)
}

// LastVersion is Version for callers that accept old data: no request is sent
// because of its age.
func (k *Kinds) LastVersion(ctx context.Context) (kubeVersion string, apiVersions []string, err error) {
	return k.version(ctx, math.MaxInt64)
}

// version returns cached data even after a failed discovery: an API server that
// is away must not stop renders.
func (k *Kinds) version(ctx context.Context, oldest time.Duration) (kubeVersion string, apiVersions []string, err error) {
	k.mu.Lock()
	age := k.now().Sub(k.requestedAt)
	due := k.known == nil || age > oldest || k.invalid && age > discoveryPause
	k.mu.Unlock()
	if due {
		err = k.refresh(ctx)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil {
		return "", nil, fmt.Errorf("the kinds of the cluster are not known: %w", err)
	}
	return k.known.server, k.known.apis, nil
}

// Invalidate makes the next lookup read discovery again: kinds may have come or
// gone.
func (k *Kinds) Invalidate() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.invalid = true
}

// Learn takes a kind from its CustomResourceDefinition, as far as that is
// established, so that no discovery is needed for it. It reports whether the
// kind is known now as it is defined.
func (k *Kinds) Learn(definition *unstructured.Unstructured) bool {
	kind, defined, ok := definedBy(definition)
	if !ok {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil {
		return false
	}
	if !k.known.kinds[kind].same(defined) {
		k.learned[kind] = lesson{defined, k.now().Add(learnedFor)}
		k.known = k.known.with(map[schema.GroupKind]*entry{kind: defined})
	}
	return true
}

// find gives what is known of a kind, in a version if one is given. A lookup of
// an unknown kind starts at most one discovery in each pause, so that a
// manifest with a wrong kind does not flood the API server.
func (k *Kinds) find(ctx context.Context, kind schema.GroupKind, version string) (*entry, error) {
	found, mayRequest, err := k.look(kind, version)
	if !mayRequest {
		return found, err
	}
	if failure := k.refresh(ctx); failure != nil {
		return nil, failure
	}
	found, _, err = k.look(kind, version)
	return found, err
}

// look reads the cache, and reports whether a discovery could help.
func (k *Kinds) look(kind schema.GroupKind, version string) (found *entry, mayRequest bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil {
		return nil, true, nil
	}
	entry := k.known.kinds[kind]
	if entry != nil && entry.version(version) != nil {
		return entry, false, nil
	}
	pause := discoveryPause
	if k.invalid {
		pause = invalidPause
	}
	mayRequest = k.under != nil || k.now().Sub(k.requestedAt) >= pause
	if broken := k.known.broken[kind.Group]; broken != nil && entry == nil {
		return nil, mayRequest, fmt.Errorf("the API server does not respond for the group %s: %w", kind.Group, broken)
	}
	return nil, mayRequest, &UnknownKind{Kind: kind.WithVersion(version), Versions: entry.versionNames()}
}

// refresh runs a discovery, or waits for the one that is under way.
func (k *Kinds) refresh(ctx context.Context) error {
	k.mu.Lock()
	if k.under == nil {
		k.under = make(chan struct{})
		k.requestedAt, k.invalid = k.now(), false
		// It is not of one caller, so that one who gives up does not end it for
		// the others.
		go k.requestKinds(k.known, k.under)
	}
	done := k.under
	k.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
		return fmt.Errorf("waiting for the kinds of the cluster: %w", context.Cause(ctx))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.failure
}

// mayRequest runs one discovery with a timeout of its own and publishes the result.
// After an error the old directory stays, and the next lookup of an unknown
// kind tries again.
func (k *Kinds) requestKinds(before *directory, done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), discoveryTimeout)
	defer cancel()
	found, err := k.discover(ctx, before)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil {
		more := map[schema.GroupKind]*entry{}
		for kind, lesson := range k.learned {
			switch {
			case found.kinds[kind] != nil || k.now().After(lesson.until):
				delete(k.learned, kind)
			default:
				more[kind] = lesson.entry
			}
		}
		k.known = found.with(more)
	} else {
		k.invalid = true
		err = fmt.Errorf("discover the kinds of the API server: %w", err)
	}
	k.failure = err
	k.under = nil
	close(done)
}

// IsUnknownKind reports whether an error means that the cluster does not have a
// kind, or not in that version.
func IsUnknownKind(err error) bool {
	_, ok := errors.AsType[*UnknownKind](err)
	return ok
}

// entry is one kind.
type entry struct {
	namespaced bool
	// versions are those that are served, the preferred one first.
	versions []servedVersion
}

// servedVersion is a kind in one version.
type servedVersion struct {
	name, resource string
	// followed reports whether objects can be listed and watched.
	followed bool
}

// version is one of the versions, or the preferred one. It is nil if the kind
// is not served in it.
func (e *entry) version(name string) *servedVersion {
	if e == nil {
		return nil
	}
	for i := range e.versions {
		if name == "" || e.versions[i].name == name {
			return &e.versions[i]
		}
	}
	return nil
}

// versionNames returns the served versions for an error message; nil for a nil
// entry.
func (e *entry) versionNames() []string {
	if e == nil {
		return nil
	}
	var names []string
	for _, served := range e.versions {
		names = append(names, served.name)
	}
	return names
}

// same reports whether a definition adds nothing to what discovery has shown.
func (e *entry) same(other *entry) bool {
	return e != nil && e.namespaced == other.namespaced && slices.Equal(e.versions, other.versions)
}
