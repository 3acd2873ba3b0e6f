package appproxy

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// How often a tree is read.
const (
	// treeGather is how long changes are collected before a read: controllers
	// write several objects at once.
	treeGather = 100 * time.Millisecond
	// treeGap is the least time between two reads. A read that takes long is
	// followed by treeShare times its duration, so that reading never takes
	// more than a quarter of the time.
	treeGap, treeShare = 330 * time.Millisecond, 3
	// treeAgain is the polling interval for trees that can change without an
	// event: while health progresses, which ends by deadline too, and while not
	// all of their objects are watched.
	treeAgain = 10 * time.Second
)

// errDeleted ends the feed of an Application that was deleted.
var errDeleted = errors.New("the Application is deleted")

// treeFeed reads the tree of one Application for all of its viewers: when the
// Application changes, and when an object of the tree or one that it owns does.
// One goroutine runs it.
type treeFeed struct {
	service *Service
	place   tracking.App
	publish func(*runtimev1.ResourceTree)
	// changed holds one signal at most.
	changed chan struct{}

	// These belong to the goroutine of run.
	uid      types.UID
	target   Target
	reader   *inspect.TreeReader
	followed map[scopeAt]bool
	// incomplete is set while some scopes of the tree cannot be watched.
	incomplete bool
	last       *runtimev1.ResourceTree

	mu sync.Mutex
	// stale are the scopes with changes since the last read.
	stale map[inspect.Scope]bool
	// members are the UIDs in the tree. It is nil during a read, when every
	// change may concern the tree.
	members map[types.UID]bool
}

// newTreeFeed returns a feed that calls publish with every new tree.
func newTreeFeed(service *Service, place tracking.App, publish func(*runtimev1.ResourceTree)) *treeFeed {
	return &treeFeed{
		service: service, place: place, publish: publish, changed: make(chan struct{}, 1),
		followed: map[scopeAt]bool{}, stale: map[inspect.Scope]bool{},
	}
}

// onChange records a change in a scope, and signals a read if it affects the
// tree. Watches call it from their goroutines.
func (f *treeFeed) onChange(scope inspect.Scope, change inspect.Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.affects(scope, change) {
		return
	}
	f.stale[scope] = true
	select {
	case f.changed <- struct{}{}:
	default: // it has not taken the last one yet
	}
}

// affects reports whether a change can alter the tree: it is of a member, or of
// an object that a member owns. The lock must be held.
func (f *treeFeed) affects(scope inspect.Scope, change inspect.Change) bool {
	if scope.Selector != "" || change.UID == "" || f.members == nil || f.members[change.UID] {
		return true
	}
	return slices.ContainsFunc(change.Owners, func(owner types.UID) bool { return f.members[owner] })
}

// run reads the tree after changes until the context is done, the Application
// is deleted, or an error ends the feed.
func (f *treeFeed) run(ctx context.Context) error {
	watch := f.service.watch
	looking, err := watch.join(f.place)
	if err != nil {
		return err
	}
	defer watch.leave(looking)
	defer f.unfollow(nil)
	// late is for an API server that never responds, and again for trees that
	// change without events.
	late, again := time.NewTimer(firstListTimeout), time.NewTicker(treeAgain)
	defer late.Stop()
	defer again.Stop()
	var next time.Time
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-late.C:
			if _, ready := watch.state(f.place); !ready {
				return connect.NewError(connect.CodeUnavailable, errors.New("the API server of the cluster does not respond: try again later"))
			}
			continue
		case <-again.C:
			if !f.needsPolling() {
				continue
			}
		case <-looking.signal:
		case <-f.changed:
		}
		if f.last != nil {
			if err := backoff.Sleep(ctx, max(treeGather, time.Until(next))); err != nil {
				return err
			}
			// Signals that arrived during the wait are covered by this read.
			drain(looking.signal)
			drain(f.changed)
		}
		object, ready := watch.state(f.place)
		if !ready {
			continue
		}
		began := time.Now()
		if err := f.read(ctx, object); err != nil {
			return err
		}
		next = time.Now().Add(max(treeGap, treeShare*time.Since(began)))
	}
}

// drain discards a pending signal: the read that follows covers it.
func drain(signal <-chan struct{}) {
	select {
	case <-signal:
	default:
	}
}

// read reads the tree, and publishes it if it differs from the last one. An
// Application that was deleted and created again has another UID: viewers must
// reconnect.
func (f *treeFeed) read(ctx context.Context, object *unstructured.Unstructured) error {
	switch {
	case object == nil && f.last == nil:
		return notFound(f.place)
	// An Application that was created again is another one for its viewers.
	case object == nil, f.uid != "" && object.GetUID() != f.uid:
		return errDeleted
	}
	f.uid = object.GetUID()
	app, err := inspect.Decode(object)
	if err != nil {
		return f.service.toConnectError(err, f.place)
	}
	if err := f.follow(ctx, app); err != nil {
		return err
	}
	f.beginRead()
	tree, err := f.service.readTree(ctx, app, f.reader)
	if err != nil {
		return err
	}
	f.recordMembers(tree)
	message := &runtimev1.ResourceTree{Nodes: nodesOf(tree)}
	// Most changes of objects do not change what the tree shows.
	if f.last == nil || !proto.Equal(f.last, message) {
		f.last = message
		f.publish(message)
	}
	return nil
}

// beginRead drops the cached scopes with changes. From now until recordMembers
// every change counts, as the members are not known.
func (f *treeFeed) beginRead() {
	f.mu.Lock()
	stale := f.stale
	f.stale, f.members = map[inspect.Scope]bool{}, nil
	f.mu.Unlock()
	f.reader.Keep(func(scope inspect.Scope) bool {
		// Each scope may be kept only if nothing changed in it and changes
		// would have been received.
		at := scopeAt{f.target.Cluster, scope}
		return !stale[scope] && f.followed[at] && f.service.scopes.isEstablished(at)
	})
}

// recordMembers stores the UIDs of a tree.
func (f *treeFeed) recordMembers(tree *inspect.Tree) {
	inside := map[types.UID]bool{}
	tree.Root.Walk(func(node, _ *inspect.Node) {
		if node.UID != "" {
			inside[node.UID] = true
		}
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.members = inside
}

// follow subscribes to the scopes that the tree is read from now, and
// unsubscribes from others.
func (f *treeFeed) follow(ctx context.Context, app *inspect.Application) error {
	target, err := f.service.target(app)
	if err != nil {
		return err
	}
	strict := f.service.strictFor(target)
	// The cache of a reader is for one cluster.
	if f.reader == nil || f.target.Cluster != target.Cluster {
		f.target, f.reader = target, inspect.NewTreeReader(strict)
	}
	scopes, complete, err := strict.Scopes(ctx, app)
	if err != nil {
		return f.service.toConnectError(err, f.place)
	}
	f.incomplete = !complete
	wanted := map[scopeAt]bool{}
	for _, scope := range scopes {
		at := scopeAt{target.Cluster, scope}
		wanted[at] = true
		if f.followed[at] {
			continue
		}
		if err := f.service.scopes.join(at, f); err != nil {
			return err
		}
		f.followed[at] = true
	}
	f.unfollow(wanted)
	return nil
}

// unfollow unsubscribes from all scopes but the wanted ones.
func (f *treeFeed) unfollow(wanted map[scopeAt]bool) {
	for at := range f.followed {
		if !wanted[at] {
			f.service.scopes.leave(at, f)
			delete(f.followed, at)
		}
	}
}

// needsPolling reports whether the tree can change without an event that is
// received. That is the case while the scopes are incomplete or a watch is not
// established, and while an object is progressing, because its health can
// depend on time.
func (f *treeFeed) needsPolling() bool {
	if f.last == nil || f.incomplete {
		return true
	}
	for at := range f.followed {
		if !f.service.scopes.isEstablished(at) {
			return true
		}
	}
	return slices.ContainsFunc(f.last.GetNodes(), func(node *runtimev1.Node) bool {
		return node.GetHealth() == string(v1alpha1.Progressing)
	})
}
