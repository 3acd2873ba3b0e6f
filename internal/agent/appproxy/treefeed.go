package appproxy

import (
	"context"
	"errors"
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
	// treeGather is how long changes that come together are waited for.
	treeGather = 100 * time.Millisecond
	// treeGap is the least time between two readings. One that takes long has a
	// longer gap after it, so that most of the time nothing is read.
	treeGap, treeShare = 330 * time.Millisecond, 3
	// treeAgain is when a tree is read without a change: while something in it
	// progresses, for that ends by time too, or while changes are not told.
	treeAgain = 10 * time.Second
)

// errDeleted ends the feed of an Application that is gone.
var errDeleted = errors.New("the Application is deleted")

// treeFeed reads the tree of one Application for all who look at it: when the
// Application changes, and when something does that is in the tree or belongs to
// something in it. One goroutine runs it.
type treeFeed struct {
	service *Service
	place   tracking.App
	publish func(*runtimev1.ResourceTree)
	// stirred holds one signal at most.
	stirred chan struct{}

	// Those are of the goroutine alone.
	uid      types.UID
	target   Target
	reader   *inspect.TreeReader
	followed map[scopeAt]bool
	// blind: some of what the tree is read from is not followed.
	blind bool
	last  *runtimev1.ResourceTree

	mu sync.Mutex
	// stale are scopes with changes that have not been read.
	stale map[inspect.Scope]bool
	// inside are the UIDs of the tree; nil while it is read, when every change
	// counts.
	inside map[types.UID]bool
}

func newTreeFeed(service *Service, place tracking.App, publish func(*runtimev1.ResourceTree)) *treeFeed {
	return &treeFeed{
		service: service, place: place, publish: publish, stirred: make(chan struct{}, 1),
		followed: map[scopeAt]bool{}, stale: map[inspect.Scope]bool{},
	}
}

// stir takes a change of a scope.
func (f *treeFeed) stir(scope inspect.Scope, change inspect.Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.concerns(scope, change) {
		return
	}
	f.stale[scope] = true
	select {
	case f.stirred <- struct{}{}:
	default: // it has not taken the last one yet
	}
}

// concerns reports whether the tree may be another after a change. The lock is held.
func (f *treeFeed) concerns(scope inspect.Scope, change inspect.Change) bool {
	if scope.Selector != "" || change.UID == "" || f.inside == nil || f.inside[change.UID] {
		return true
	}
	for _, owner := range change.Owners {
		if f.inside[owner] {
			return true
		}
	}
	return false
}

// run reads until the context is done, the Application is gone, or the tree cannot
// be read.
func (f *treeFeed) run(ctx context.Context) error {
	watch := f.service.watch
	looking, err := watch.join(f.place)
	if err != nil {
		return err
	}
	defer watch.leave(looking)
	defer f.unfollow(nil)
	late, again := time.NewTimer(syncPatience), time.NewTicker(treeAgain)
	defer late.Stop()
	defer again.Stop()
	var next time.Time
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-late.C:
			if _, ready := watch.state(f.place); !ready {
				return connect.NewError(connect.CodeUnavailable, errors.New("the API server of the cluster does not answer: try again later"))
			}
			continue
		case <-again.C:
			if !f.restless() {
				continue
			}
		case <-looking.signal:
		case <-f.stirred:
		}
		if f.last != nil {
			if err := backoff.Sleep(ctx, max(treeGather, time.Until(next))); err != nil {
				return err
			}
			drain(looking.signal)
			drain(f.stirred)
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

func drain(signal <-chan struct{}) {
	select {
	case <-signal:
	default:
	}
}

// read reads the tree, and publishes it if it is another one.
func (f *treeFeed) read(ctx context.Context, object *unstructured.Unstructured) error {
	switch {
	case object == nil && f.last == nil:
		return notFound(f.place)
	case object == nil, f.uid != "" && object.GetUID() != f.uid:
		return errDeleted
	}
	f.uid = object.GetUID()
	app, err := inspect.Decode(object)
	if err != nil {
		return f.service.fault(err, f.place)
	}
	if err := f.follow(ctx, app); err != nil {
		return err
	}
	f.begin()
	tree, err := f.service.readTree(ctx, app, f.reader)
	if err != nil {
		return err
	}
	f.settle(tree)
	told := &runtimev1.ResourceTree{Nodes: nodesOf(tree)}
	if f.last == nil || !proto.Equal(f.last, told) {
		f.last = told
		f.publish(told)
	}
	return nil
}

// begin has what may have changed read again, and every change counted until it is
// read.
func (f *treeFeed) begin() {
	f.mu.Lock()
	stale := f.stale
	f.stale, f.inside = map[inspect.Scope]bool{}, nil
	f.mu.Unlock()
	f.reader.Keep(func(scope inspect.Scope) bool {
		at := scopeAt{f.target.Cluster, scope}
		return !stale[scope] && f.followed[at] && f.service.scopes.hears(at)
	})
}

// settle notes what is in the tree.
func (f *treeFeed) settle(tree *inspect.Tree) {
	inside := map[types.UID]bool{}
	tree.Root.Walk(func(node, _ *inspect.Node) {
		if node.UID != "" {
			inside[node.UID] = true
		}
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inside = inside
}

// follow begins to follow what the tree is read from, and ends what it no longer is.
func (f *treeFeed) follow(ctx context.Context, app *inspect.Application) error {
	target, err := f.service.target(app)
	if err != nil {
		return err
	}
	strict := f.service.within(target)
	if f.reader == nil || f.target.Cluster != target.Cluster {
		f.target, f.reader = target, inspect.NewTreeReader(strict)
	}
	scopes, complete, err := strict.Scopes(ctx, app)
	if err != nil {
		return f.service.fault(err, f.place)
	}
	f.blind = !complete
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

// unfollow ends following all scopes but those.
func (f *treeFeed) unfollow(wanted map[scopeAt]bool) {
	for at := range f.followed {
		if !wanted[at] {
			f.service.scopes.leave(at, f)
			delete(f.followed, at)
		}
	}
}

// restless reports whether the tree may become another one without a change that
// is told.
func (f *treeFeed) restless() bool {
	if f.last == nil || f.blind {
		return true
	}
	for at := range f.followed {
		if !f.service.scopes.hears(at) {
			return true
		}
	}
	for _, node := range f.last.GetNodes() {
		if node.GetHealth() == string(v1alpha1.Progressing) {
			return true
		}
	}
	return false
}
