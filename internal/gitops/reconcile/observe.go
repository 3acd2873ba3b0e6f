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

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/live"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/tracking"
)

const (
	// followTimeout is how long the first list of a new kind may take.
	followTimeout = 30 * time.Second
	// fetchTimeout bounds the read of one object that no watch has.
	fetchTimeout = 15 * time.Second
	// fetches is how many objects of an Application are read at a time.
	fetches = 4
)

// observedState is the state of an Application's objects in the cluster.
type observedState struct {
	// of is the rendering that is desired, and set its objects; nil if nothing was
	// rendered yet.
	of  *rendering
	set *plan.Set
	// live has the objects with the Application's label, and those under the
	// keys of the desired ones, of any owner.
	live     map[tracking.Key]*unstructured.Unstructured
	compared []plan.Status
	// inSync is whether all is as desired.
	inSync bool
	// excluded are the objects with the Application's label that its project does
	// not allow, each with the reason.
	excluded []string
	// unread are desired objects that were not read because no watch has them: if a
	// sync starts it creates them, and finds out whether they exist.
	unread []*plan.Desired
	// replaced are the objects that Git had before the ones that are desired, where they
	// differ, and presumed is whether one is OutOfSync because of it. Both are of the
	// first comparison with a new rendering; see presume.go.
	replaced map[tracking.Key]*unstructured.Unstructured
	presumed bool
	// fingerprint is that of the objects with the Application's label.
	fingerprint string
}

// refusals are the rendered objects that cannot be planned. While there are any,
// what is desired is not known: the sync status is Unknown, no sync starts by
// itself, and nothing is pruned.
func (s *observedState) refusals() []refusal.Refusal {
	if s == nil || s.set == nil {
		return nil
	}
	return s.set.Refusals
}

// isPartlyUnwatched reports whether an object of the Application lacks our label,
// which watches are filtered by: its changes come with no event, whether it is
// Synced or not, so it is observed at the polling interval.
func (s *observedState) isPartlyUnwatched() bool {
	return s != nil && slices.ContainsFunc(s.compared, func(one plan.Status) bool { return one.Unlabelled })
}

// unlabelled are the objects that are as desired but for our label.
func (s *observedState) unlabelled() []plan.Status {
	if s == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.compared), func(one plan.Status) bool { return !one.Unlabelled || one.State != plan.Synced })
}

// observe reads the live objects and compares them with a rendering. Without
// one it reads what the last status lists, for their health.
func (p *reconcileRun) observe(ctx context.Context, of *rendering) (*observedState, error) {
	var set *plan.Set
	if of != nil {
		prepared, err := p.prepare(of, time.Time{})
		if err != nil {
			return nil, err
		}
		set = prepared
	}
	if err := p.watchKinds(ctx, set); err != nil {
		return nil, err
	}
	if set == nil {
		return p.observeOwned(nil, allowAll{}), nil // only their health is read
	}
	seen := p.observeOwned(set, p.gate())
	seen.of = of
	if of != p.session.comparedWith {
		seen.replaced = p.replacedObjects(p.session.comparedWith, set, of)
		p.session.comparedWith = of
		p.session.forgetComparison()
	}
	missing := p.missing(seen.live, set.Resources())
	if p.maySync() {
		seen.unread, missing = p.split(missing)
	}
	if err := p.fetchAll(ctx, seen.live, missing); err != nil {
		return nil, err
	}
	releases, err := p.overlayReleases(ctx, set, seen.live, of)
	if err != nil {
		return nil, err
	}
	p.releases = releases
	if err := p.compare(ctx, seen); err != nil {
		return nil, err
	}
	return seen, nil
}

// prepare makes the desired set of a rendering. The time is the start of the
// operation, which names hooks with generateName; zero if the set is only
// compared.
func (p *reconcileRun) prepare(of *rendering, began time.Time) (*plan.Set, error) {
	objects, err := of.decode()
	if err != nil {
		return nil, err
	}
	return plan.Prepare(plan.Source{
		App: p.id, Tracker: p.tracker(), Namespace: p.app.Spec.Destination.Namespace,
		Revision: strings.Join(of.revisions, ","), Began: began, Scope: p.destinationCluster.Kinds.Scope, Objects: objects,
		Excludes: p.excludes,
	}), nil
}

// excludes reports whether the settings leave a kind out at the destination.
func (p *reconcileRun) excludes(kind schema.GroupKind) bool {
	return p.Settings().Excludes(kind, p.destinationCluster.Server)
}

// watchKinds starts watches for all kinds that the Application may have objects
// of: those of the desired set, of the status, and of the last operation, so
// that objects which left Git are still found. Kinds that no Application needs
// any more are unwatched later.
func (p *reconcileRun) watchKinds(ctx context.Context, set *plan.Set) error {
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
	maps.DeleteFunc(kinds, func(kind schema.GroupKind, _ struct{}) bool { return p.excludes(kind) })
	needed := slices.Collect(maps.Keys(kinds))
	if needed == nil {
		needed = []schema.GroupKind{}
	}
	if p.store.setKinds(p.entry, needed) {
		p.queue.within(item{unwatch: true}, reasonTimer, p.now.Add(unwatchDelay))
	}
	ctx, cancel := context.WithTimeout(ctx, followTimeout)
	defer cancel()
	if err := p.destinationCluster.Live.Follow(ctx, needed); err != nil {
		return fmt.Errorf("the objects of the application cannot be watched: %w", err)
	}
	return nil
}

// observeOwned returns the objects that have the Application's label and that
// the gate allows. The label is no proof: a tenant can write it to its own
// objects, and the Application of another tenant would be OutOfSync, or could not
// be synced, because of them. The fingerprint is that of all.
func (p *reconcileRun) observeOwned(set *plan.Set, gate plan.Gate) *observedState {
	owned := p.destinationCluster.Live.Of(p.id)
	seen := &observedState{set: set, live: map[tracking.Key]*unstructured.Unstructured{}, fingerprint: fingerprint(owned)}
	for _, one := range owned {
		if p.excludes(one.Key.GroupKind()) {
			continue // not even pruned, as in Argo CD
		}
		object := one.Unstructured()
		if refused := gate.Allows(one.Key, object, p.id.Namespace); refused != nil {
			seen.excluded = append(seen.excluded, one.Key.String()+" has the label of the application and is left alone: "+refused.Message)
			continue
		}
		seen.live[one.Key] = object
	}
	return seen
}

// maySync reports whether an automated sync may start in this run.
func (p *reconcileRun) maySync() bool {
	return p.lastErr == nil && p.app.Spec.SyncPolicy.IsAutomated() && !p.isOperating() && p.requested() == nil
}

// split returns the missing objects that need not be read before an automated
// sync, and the others. One that no watch has is OutOfSync whether it exists or
// not, because our label is desired. One that the status lists as existing is
// read: only something unusual keeps it from the watches.
func (p *reconcileRun) split(missing []*plan.Desired) (unread, rest []*plan.Desired) {
	existed := map[tracking.Key]bool{}
	for _, resource := range p.app.Status.Resources {
		key := tracking.Key{Group: resource.Group, Kind: resource.Kind, Namespace: resource.Namespace, Name: resource.Name}
		existed[key] = resource.Health == nil || resource.Health.Status != v1alpha1.Missing
	}
	for _, one := range missing {
		if !existed[one.Key] && p.destinationCluster.Live.HasNone(one.Key) {
			unread = append(unread, one)
		} else {
			rest = append(rest, one)
		}
	}
	return unread, rest
}

// readRest completes an observation from which no sync starts.
func (p *reconcileRun) readRest(ctx context.Context, seen *observedState) error {
	err := p.fetchAll(ctx, seen.live, seen.unread)
	if err == nil {
		seen.unread, seen.replaced, seen.presumed = nil, nil, false
		err = p.compare(ctx, seen)
	}
	return err
}

// fetchMissing adds the live objects under the keys of desired ones that no
// watch has: an object of another owner has no label. Objects are compared in
// the version in which they are desired.
func (p *reconcileRun) fetchMissing(ctx context.Context, objects map[tracking.Key]*unstructured.Unstructured, desired []*plan.Desired) error {
	return p.fetchAll(ctx, objects, p.missing(objects, desired))
}

// missing returns the desired objects that are not among those of the watches.
func (p *reconcileRun) missing(objects map[tracking.Key]*unstructured.Unstructured, desired []*plan.Desired) []*plan.Desired {
	var missing []*plan.Desired
	for _, one := range desired {
		found := objects[one.Key]
		isThere := found != nil && found.GetAPIVersion() == one.Object.GetAPIVersion()
		if !isThere && one.Skip == "" && p.destinationCluster.Kinds.Scope(one.Key.GroupKind()) != plan.UnknownScope {
			missing = append(missing, one)
		}
	}
	return missing
}

// fetchAll reads objects from the cache or the API server.
func (p *reconcileRun) fetchAll(ctx context.Context, objects map[tracking.Key]*unstructured.Unstructured, missing []*plan.Desired) error {
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

// hooks returns the hooks of a set.
func hooks(set *plan.Set) []*plan.Desired {
	return slices.DeleteFunc(slices.Clone(set.Objects), func(one *plan.Desired) bool { return one.Hook == nil })
}

// fetch reads one object; nil if there is none.
func (p *reconcileRun) fetch(ctx context.Context, key tracking.Key, version string) (*live.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	object, err := p.destinationCluster.Live.Fetch(ctx, key, version)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", key, err)
	}
	return object, nil
}

// fingerprint is equal for the same objects in the same versions. It separates
// an event that changed something from the echo of a write.
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

// compare compares the live objects with the desired set. An object that was
// Synced in its current version is not sent to the API server again.
func (p *reconcileRun) compare(ctx context.Context, seen *observedState) error {
	predictor := p.applier.Predict(ctx, objectOptions(&p.app.Spec, nil).Unvalidated)
	predict := func(desired, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		if version, ok := p.session.syncedVersions[tracking.KeyOf(desired)]; ok && version == live.GetResourceVersion() {
			return live, nil
		}
		if after := p.presume(seen, desired, live); after != nil {
			return after, nil
		}
		return predictor(desired, live)
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
			return one.Problem // the API server did not decide; an object that it refuses is OutOfSync
		}
	}
	p.session.syncedVersions = matched
	seen.compared, seen.inSync = compared, overall == plan.Synced
	return nil
}

// synced are the resources that a sync need not touch. One that lacks our label
// gets it with the next sync.
func (s *observedState) synced() map[tracking.Key]bool {
	synced := map[tracking.Key]bool{}
	for _, one := range s.compared {
		synced[one.Key] = one.State == plan.Synced && !one.Unlabelled
	}
	return synced
}
