package reconcile

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/live"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/tracking"
)

const (
	// followTimeout is how long the first list of a new kind may take.
	followTimeout = 30 * time.Second
	// fetchTimeout is for an object that no watch knows.
	fetchTimeout = 15 * time.Second
	// fetches is how many objects of an Application are asked for at a time.
	fetches = 4
)

// sight is what was seen of an Application in the cluster.
type sight struct {
	// set is what is desired; nil if that is not known.
	set      *plan.Set
	live     map[tracking.Key]*unstructured.Unstructured
	compared []plan.Status
	// inSync is whether all is as desired.
	inSync bool
}

// refusals are the rendered objects that cannot be planned. While there are any,
// what is desired is not known: the sync status is Unknown, no sync starts by
// itself, and nothing is pruned.
func (s *sight) refusals() []plan.Refusal {
	if s == nil || s.set == nil {
		return nil
	}
	return s.set.Refusals
}

// unlabelled are the objects that are as desired but for our label.
func (s *sight) unlabelled() []plan.Status {
	if s == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.compared), func(one plan.Status) bool { return !one.Unlabelled || one.State != plan.Synced })
}

// observe looks at the cluster and compares. Without a rendering, it looks at
// what the last status lists.
func (p *pass) observe(ctx context.Context, of *rendering) (*sight, error) {
	var set *plan.Set
	if of != nil {
		prepared, err := p.prepare(of, time.Time{})
		if err != nil {
			return nil, err
		}
		set = prepared
	}
	if err := p.follow(ctx, set); err != nil {
		return nil, err
	}
	seen := &sight{set: set, live: p.owned()}
	if set == nil {
		return seen, nil
	}
	if err := p.complete(ctx, seen.live, set.Resources()); err != nil {
		return nil, err
	}
	if err := p.compare(ctx, seen); err != nil {
		return nil, err
	}
	return seen, nil
}

// prepare makes what is desired of what was rendered. The time is that of the
// operation, or zero if it is for comparing only.
func (p *pass) prepare(of *rendering, began time.Time) (*plan.Set, error) {
	objects, err := of.decode()
	if err != nil {
		return nil, err
	}
	return plan.Prepare(plan.Source{
		App: p.id, Tracker: p.tracker(), Namespace: p.app.Spec.Destination.Namespace,
		Revision: strings.Join(of.revisions, ","), Began: began, Scope: p.to.Kinds.Scope, Objects: objects,
	}), nil
}

// follow has the kinds watched that the Application may have objects of: what is
// desired, what the status lists, and what the last operation touched.
func (p *pass) follow(ctx context.Context, set *plan.Set) error {
	kinds := map[schema.GroupKind]struct{}{}
	if set != nil {
		for _, desired := range set.Objects {
			kinds[desired.Key.GroupKind()] = struct{}{}
		}
	}
	for _, resource := range p.app.Status.Resources {
		kinds[schema.GroupKind{Group: resource.Group, Kind: resource.Kind}] = struct{}{}
	}
	if state := p.state(); state != nil && state.SyncResult != nil {
		for _, result := range state.SyncResult.Resources {
			kinds[schema.GroupKind{Group: result.Group, Kind: result.Kind}] = struct{}{}
		}
	}
	needed := slices.Collect(maps.Keys(kinds))
	if needed == nil {
		needed = []schema.GroupKind{}
	}
	if p.book.needs(p.entry, needed) {
		p.queue.within(task{sweep: true}, becauseTime, p.now.Add(sweepPause))
	}
	ctx, cancel := context.WithTimeout(ctx, followTimeout)
	defer cancel()
	if err := p.to.Live.Follow(ctx, needed); err != nil {
		return fmt.Errorf("the objects of the application cannot be watched: %w", err)
	}
	return nil
}

// owned is everything that has the Application's label.
func (p *pass) owned() map[tracking.Key]*unstructured.Unstructured {
	objects := map[tracking.Key]*unstructured.Unstructured{}
	owned := p.to.Live.Of(p.id)
	for _, one := range owned {
		objects[one.Key] = one.Unstructured()
	}
	p.print = fingerprint(owned)
	return objects
}

// complete adds what is there under the keys of what is desired, whoever made
// it. What is compared has to be in the same version.
func (p *pass) complete(ctx context.Context, objects map[tracking.Key]*unstructured.Unstructured, desired []*plan.Desired) error {
	var missing []*plan.Desired
	for _, one := range desired {
		found := objects[one.Key]
		isThere := found != nil && found.GetAPIVersion() == one.Object.GetAPIVersion()
		if !isThere && one.Skip == "" && p.to.Kinds.Scope(one.Key.GroupKind()) != plan.UnknownScope {
			missing = append(missing, one)
		}
	}
	fetched := make([]*live.Object, len(missing))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(fetches)
	for i, one := range missing {
		group.Go(func() error {
			object, err := p.fetch(ctx, one.Key, one.Object.GroupVersionKind().Version)
			fetched[i] = object
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, object := range fetched {
		if object != nil {
			objects[object.Key] = object.Unstructured()
		}
	}
	return nil
}

// hooks are the hooks of a set.
func hooks(set *plan.Set) []*plan.Desired {
	return slices.DeleteFunc(slices.Clone(set.Objects), func(one *plan.Desired) bool { return one.Hook == nil })
}

func (p *pass) fetch(ctx context.Context, key tracking.Key, version string) (*live.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	object, err := p.to.Live.Fetch(ctx, key, version)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", key, err)
	}
	return object, nil
}

// fingerprint is the same for the same objects in the same versions.
func fingerprint(objects []*live.Object) string {
	lines := make([]string, 0, len(objects))
	for _, one := range objects {
		lines = append(lines, one.Key.String()+" "+string(one.UID)+" "+one.ResourceVersion)
	}
	slices.Sort(lines)
	sum := fnv.New128a()
	for _, line := range lines {
		_, _ = sum.Write([]byte(line + "\n"))
	}
	return string(sum.Sum(nil)) + fmt.Sprint(len(lines))
}

// compare says which objects are as desired. What was found to be so, and has
// not changed since, is not asked about again.
func (p *pass) compare(ctx context.Context, seen *sight) error {
	ask := p.applier.Predict(ctx, objectOptions(&p.app.Spec, nil).Unvalidated)
	predict := func(desired, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		if version, ok := p.session.matched[tracking.KeyOf(desired)]; ok && version == live.GetResourceVersion() {
			return live.DeepCopy(), nil
		}
		return ask(desired, live)
	}
	compared, overall := plan.CompareAll(plan.Comparison{
		Set: seen.set, Live: seen.live, Ignore: p.ignore, Predict: predict,
		LabelOptional: !p.app.Spec.SyncPolicy.IsAutomated(),
	})
	matched := map[tracking.Key]string{}
	for _, one := range compared {
		var fault *apply.Error
		switch {
		case one.State == plan.Synced:
			matched[one.Key] = seen.live[one.Key].GetResourceVersion()
		case errors.As(one.Problem, &fault) && (fault.Kind == apply.Transient || fault.Kind == apply.Conflict), ctx.Err() != nil:
			return one.Problem // nothing is known; what is refused is known to differ
		}
	}
	p.session.matched = matched
	seen.compared, seen.inSync = compared, overall == plan.Synced
	return nil
}

// synced are the resources that a sync need not touch. One that lacks our label
// gets it with the next sync.
func (s *sight) synced() map[tracking.Key]bool {
	synced := map[tracking.Key]bool{}
	for _, one := range s.compared {
		synced[one.Key] = one.State == plan.Synced && !one.Unlabelled
	}
	return synced
}
