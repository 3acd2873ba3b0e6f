package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/customization"
	"slipway.dev/slipway/internal/gitops/health"
	"slipway.dev/slipway/internal/gitops/jq"
	"slipway.dev/slipway/internal/gitops/live"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/plugin"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/gitops/tree"
	"slipway.dev/slipway/internal/release"
)

// fetchParallel is how many objects are read in parallel.
const fetchParallel = 8

// Comparison compares Git with the cluster. It is used once, by one goroutine:
// Run calls Prepare and fetch, which fill its fields.
type Comparison struct {
	Inspector        *Inspector
	App              *Application
	Kinds            *live.Kinds
	ControlNamespace string
	// Project admits the sources; nil if the caller renders no others than its
	// own.
	Project *project.Project
	// Gate limits the objects that the Application may touch. Without one there
	// is no limit.
	Gate plan.Gate
	// Applier predicts by dry runs. The default uses the inspector's rights.
	Applier *apply.Applier
	// Resolve fetches what the sources need of elsewhere. Without it, such
	// sources are refused.
	Resolve func(context.Context, render.Dependency) (tree.Store, error)
	// Plugins are the config management plugins, which Project admits; nil where
	// there are none, as on the machine of a user.
	Plugins *plugin.Plugins
	// Settings are those of the control namespace; nil for none. Server is the
	// address of the cluster in them.
	Settings *customization.Settings
	Server   string
	// Warn receives warnings. It may be nil.
	Warn func(string)

	set    *plan.Set
	ignore *plan.Ignore
	live   map[tracking.Key]*unstructured.Unstructured
	after  map[tracking.Key]*unstructured.Unstructured
}

// ObjectDiff is the diff of one object.
type ObjectDiff struct {
	Key   tracking.Key
	State plan.SyncState
	// Live and Predicted are masked: they contain no values of Secrets. Either
	// can be nil.
	Live, Predicted *unstructured.Unstructured
	// Text is the diff as YAML, in the format of diff -u.
	Text string
}

// Render renders the inputs for the Application's cluster.
func (c *Comparison) Render(ctx context.Context, renderer *render.Renderer, inputs []render.Input) ([]*unstructured.Unstructured, error) {
	version, apis, err := c.Kinds.Version(ctx)
	if err != nil {
		return nil, err
	}
	request := render.Request{
		App: c.App.Name, Project: c.App.Spec.ProjectName(), Namespace: c.App.Spec.Destination.Namespace,
		KubeVersion: version, APIVersions: apis, Inputs: inputs, Resolve: c.Resolve,
	}
	if err := c.usePlugins(ctx, &request); err != nil {
		return nil, err
	}
	result, err := renderer.Render(ctx, request)
	if err != nil {
		return nil, err
	}
	for _, warning := range result.Warnings {
		c.warn(warning)
	}
	return result.Objects, nil
}

// usePlugins lets a request use plugins. Without them a source that a plugin
// matched in the agent is an error: rendered in another way it would look like a
// change.
func (c *Comparison) usePlugins(ctx context.Context, request *render.Request) error {
	if c.Plugins != nil {
		return c.Plugins.Complete(ctx, request, c.Project.AdmitPlugin)
	}
	types := append(slices.Clone(c.App.Status.SourceTypes), c.App.Status.SourceType)
	for i := range request.Inputs {
		if request.Inputs[i].Untyped() && slices.Contains(types, v1alpha1.SourcePlugin) {
			return &StateError{fmt.Sprintf("a config management plugin generates %s, and plugins run beside the agent only: compare it in the console or through the runtime", c.App.ID())}
		}
	}
	return nil
}

// warn passes a warning on.
func (c *Comparison) warn(text string) {
	if c.Warn != nil {
		c.Warn(text)
	}
}

// Prepare converts rendered objects to those that would be applied: with
// namespaces and tracking marks, and checked by the gate.
func (c *Comparison) Prepare(rendered []*unstructured.Unstructured) ([]*plan.Desired, error) {
	// The same preparation as in a sync, so that the diff is what a sync would
	// do.
	c.set = plan.Prepare(plan.Source{
		App: c.App.ID(), Tracker: tracking.Tracker{ControlNamespace: c.ControlNamespace}, Namespace: c.App.Spec.Destination.Namespace,
		Began: time.Now(), Scope: c.Kinds.Scope, Objects: rendered,
		Excludes: func(kind schema.GroupKind) bool { return c.Settings != nil && c.Settings.Excludes(kind, c.Server) },
	})
	var refused []error
	for _, one := range c.set.Refusals {
		refused = append(refused, one)
	}
	// The gate is checked before anything is read: a refused object must not be
	// disclosed by its diff.
	for _, object := range c.set.Objects {
		refused = append(refused, c.check(object.Key, object.Object))
	}
	if err := errors.Join(refused...); err != nil {
		return nil, err
	}
	for _, warning := range c.set.Warnings {
		c.warn(warning.Message)
	}
	return c.set.Objects, nil
}

// check returns why the gate refuses an object; nil if it does not.
func (c *Comparison) check(key tracking.Key, object *unstructured.Unstructured) error {
	if c.Gate == nil {
		return nil
	}
	if refused := c.Gate.Allows(key, object, c.App.Namespace); refused != nil {
		return refused.Of(refusal.Object(key))
	}
	return nil
}

// Run prepares rendered objects, reads the live ones, and predicts the result
// of applying them. The error contains the objects that cannot be compared.
func (c *Comparison) Run(ctx context.Context, rendered []*unstructured.Unstructured) ([]ObjectDiff, error) {
	if _, err := c.Prepare(rendered); err != nil {
		return nil, err
	}
	// Ignored fields do not count in the comparison, and are not shown.
	rules := c.App.Spec.IgnoreDifferences
	if c.Settings != nil {
		rules = slices.Concat(rules, c.Settings.IgnoreDifferences)
	}
	var err error
	if c.ignore, err = plan.NewIgnore(rules, jq.New()); err != nil {
		return nil, fmt.Errorf("ignoreDifferences of %s: %w", c.App.ID(), err)
	}
	if c.Settings != nil {
		c.ignore = c.ignore.WithKnownFields(c.Settings.KnownFields)
	}
	if err := c.fetch(ctx); err != nil {
		return nil, err
	}
	// A live object can be of another project than the desired one.
	var refused []error
	for _, desired := range c.set.Objects {
		if live := c.live[desired.Key]; live != nil {
			refused = append(refused, c.check(desired.Key, live))
			if desired.Key.Group == "apps" && desired.Key.Kind == "Deployment" {
				release.KeepOverlay(desired.Object, live)
			}
		}
	}
	if err := errors.Join(refused...); err != nil {
		return nil, err
	}
	applier := c.Applier
	if applier == nil {
		applier = apply.New(c.Inspector.Cluster, c.Kinds)
	}
	c.after = map[tracking.Key]*unstructured.Unstructured{}
	var general v1alpha1.SyncOptions
	if policy := c.App.Spec.SyncPolicy; policy != nil {
		general, _ = v1alpha1.ParseSyncOptions(policy.SyncOptions, "")
	}
	// Validate=false of the Application applies to the dry runs too.
	predict := applier.Predict(ctx, plan.ObjectOptions{SkipValidation: !general.Validate.Or(true)}.Unvalidated)
	// Problems of single objects are in their statuses; differences joins them.
	statuses, _ := plan.CompareAll(plan.Comparison{
		Set: c.set, Live: c.live, Ignore: c.ignore,
		Predict: func(desired, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			after, err := predict(desired, live)
			if err == nil {
				// The comparison strips ignored fields from its copy; the diff
				// needs all of them.
				c.after[tracking.KeyOf(desired)] = after.DeepCopy()
			}
			return after, err
		},
	})
	return c.differences(statuses)
}

// Healths returns the live objects of the Application with their health by the
// rules of the inspector. It is for use after Run. Hooks are not part of it.
func (c *Comparison) Healths(now time.Time) []health.Resource {
	var all []health.Resource
	for _, desired := range c.set.Resources() {
		object := c.live[desired.Key]
		one := health.Resource{
			Group: desired.Key.Group, Kind: desired.Key.Kind, Namespace: desired.Key.Namespace, Name: desired.Key.Name,
			Live: object != nil, Ignored: health.Ignored(object),
		}
		if object != nil {
			one.Health = c.Inspector.Health.Of(object, now)
		}
		all = append(all, one)
	}
	return all
}

// fetch reads the live objects: the desired ones, and those that the
// Application has created before. The Cache is not run: it serves only for
// Fetch, whose requests use the caller's rights.
func (c *Comparison) fetch(ctx context.Context) error {
	versions := map[tracking.Key]string{}
	for i := range c.App.Status.Resources {
		resource := &c.App.Status.Resources[i]
		versions[KeyOfResource(resource)] = resource.Version
	}
	desired := map[tracking.Key]bool{}
	for _, object := range c.set.Objects {
		// Git's version wins over that of the status, so that both states are
		// comparable.
		versions[object.Key] = object.Object.GroupVersionKind().Version
		desired[object.Key] = true
	}
	cache := live.New(live.Options{Cluster: c.Inspector.Cluster, Kinds: c.Kinds})
	c.live = map[tracking.Key]*unstructured.Unstructured{}
	// Buffered for all objects, so that no reader blocks when another fails.
	found := make(chan *live.Object, len(versions))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(fetchParallel)
	for key, version := range versions {
		group.Go(func() error {
			object, err := cache.Fetch(ctx, key, version)
			if err == nil && object != nil {
				found <- object
			}
			return err
		})
	}
	err := group.Wait()
	close(found)
	for object := range found {
		whole := object.Unstructured()
		// The status is not trusted: an object that it names must carry the
		// Application's mark.
		if c.Gate != nil && !desired[object.Key] && !c.strict().belongs(whole, c.App) {
			continue // the status names it, and another owner has it
		}
		c.live[object.Key] = whole
	}
	return err
}

// strict returns a reader that checks the tracking marks.
func (c *Comparison) strict() Strict {
	return Strict{Inspector: c.Inspector, Kinds: c.Kinds, ControlNamespace: c.ControlNamespace}
}

// differences returns the diff of each object.
func (c *Comparison) differences(statuses []plan.Status) ([]ObjectDiff, error) {
	desired := map[tracking.Key]*unstructured.Unstructured{}
	for _, object := range c.set.Resources() {
		desired[object.Key] = object.Object
	}
	var problems []error
	var diffs []ObjectDiff
	for _, status := range statuses {
		if status.Problem != nil {
			problems = append(problems, status.Problem)
			continue
		}
		before, after := c.live[status.Key], c.after[status.Key]
		switch status.State {
		// There was no dry run, so that Git's object is shown.
		case plan.Absent:
			after = desired[status.Key]
		case plan.OutOfSync:
			before = before.DeepCopy()
			c.ignore.Equalize(before, after)
		// It would be pruned.
		case plan.Extra:
			after = nil
		}
		diff, err := diffOf(status, before, after)
		if err != nil {
			return nil, err
		}
		diffs = append(diffs, diff)
	}
	return diffs, errors.Join(problems...)
}

// diffOf returns the diff of one object. Either state may be nil. Both states
// are masked before the text is made, so that no value of a Secret reaches the
// diff.
func diffOf(status plan.Status, before, after *unstructured.Unstructured) (ObjectDiff, error) {
	diff := ObjectDiff{Key: status.Key, State: status.State}
	diff.Live, diff.Predicted = MaskedPair(shownObject(before), shownObject(after))
	if status.State == plan.Synced {
		return diff, nil
	}
	text, err := UnifiedDiff(diff.Live, diff.Predicted)
	if err != nil {
		return diff, err
	}
	// The comparison found a difference that masking or stripping hides.
	text = cmp.Or(text, "(the difference is in fields that only the API server writes)\n")
	diff.Text = fmt.Sprintf("--- live/%s%s\n+++ git/%s%s\n%s", diff.Key, absentNote(diff.Live), diff.Key, absentNote(diff.Predicted), text)
	return diff, nil
}

// absentNote explains a missing object.
func absentNote(object *unstructured.Unstructured) string {
	if object == nil {
		return " (not there)"
	}
	return ""
}

// Syncable returns an error if the Application has unsupported fields.
func Syncable(app *Application) error {
	if len(app.Refused) > 0 {
		return &StateError{fmt.Sprintf("%s cannot be synced as it is: %s", app.ID(), refusal.Summary(app.Refused))}
	}
	return nil
}
