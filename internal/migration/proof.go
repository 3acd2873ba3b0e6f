package migration

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/gitops/argosetting"
	"slipway.dev/slipway/internal/gitops/health"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/migrate"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// isReported reports whether an obstacle repeats a refused field.
func isReported(one finding.Finding) bool { return one.Code == migrate.CodeUnsupported }

// prove renders and compares an Application. An error is a part of the proof: the
// others go on.
func (a *assessment) prove(ctx context.Context, app *inspect.Application) *Proof {
	proof := &Proof{Resources: []Resource{}, ArgoHealth: app.Status.Health.Status}
	at, err := a.destinationOf(app)
	if err == nil {
		err = at.reach(ctx)
	}
	if err != nil {
		proof.Failed = failure(err)
		return proof
	}
	compared := &inspect.Comparison{
		Inspector: at.inspector, App: app, Kinds: at.kinds, ControlNamespace: a.Namespace,
		Settings: a.settings, Server: at.server,
		Warn: func(text string) { proof.Warnings = append(proof.Warnings, text) },
	}
	diffs, err := a.compare(ctx, compared, proof)
	// Objects that could be compared are shown also beside an error.
	if err != nil {
		proof.Failed = failure(err)
	}
	if diffs == nil && err != nil {
		return proof
	}
	healths := compared.Healths(time.Now())
	at.addResources(app, proof, diffs, healths)
	proof.Health = health.Aggregate(healths).Code
	rendered := map[tracking.Key]bool{}
	for _, diff := range diffs {
		rendered[diff.Key] = true
	}
	if proof.Orphaned, err = a.orphaned(ctx, at, app, rendered); err != nil {
		proof.Warnings = append(proof.Warnings, "orphaned resources were not looked for: "+failure(err))
	}
	return proof
}

// compare renders the revisions that Argo CD has compared, and compares the
// result with the cluster.
func (a *assessment) compare(ctx context.Context, compared *inspect.Comparison, proof *Proof) ([]inspect.ObjectDiff, error) {
	sources, revisions := pinned(compared.App)
	if len(revisions) == 0 {
		return nil, errors.New("it was not compared with Git yet: refresh it in Argo CD first")
	}
	proof.Revisions = revisions
	inputs, err := compared.Fetch(ctx, a.sources, sources)
	if err != nil {
		return nil, err
	}
	rendered, err := compared.Render(ctx, a.Renderer, inputs)
	if err != nil {
		return nil, err
	}
	return compared.Run(ctx, rendered)
}

// pinned returns the sources of an Application at the revisions that Argo CD has
// compared; none if it has not.
func pinned(app *inspect.Application) ([]v1alpha1.ApplicationSource, []string) {
	sources := slices.Clone(app.Spec.AllSources())
	revisions := app.Status.Sync.Revisions
	if len(revisions) == 0 && app.Status.Sync.Revision != "" {
		revisions = []string{app.Status.Sync.Revision}
	}
	// Sources that were added since have no revision yet.
	if len(revisions) != len(sources) {
		return nil, nil
	}
	for i := range sources {
		sources[i].TargetRevision = cmp.Or(revisions[i], sources[i].TargetRevision)
	}
	return sources, revisions
}

// addResources compares what the runtime would do with what Argo CD reports.
func (d *destination) addResources(app *inspect.Application, proof *Proof, diffs []inspect.ObjectDiff, healths []health.Resource) {
	reported := map[tracking.Key]*v1alpha1.ResourceStatus{}
	for i := range app.Status.Resources {
		// Hooks belong to a sync and not to the state.
		if one := &app.Status.Resources[i]; !one.Hook {
			reported[inspect.KeyOfResource(one)] = one
		}
	}
	ours := map[tracking.Key]*health.Status{}
	for _, one := range healths {
		ours[tracking.Key{Group: one.Group, Kind: one.Kind, Namespace: one.Namespace, Name: one.Name}] = one.Health
	}
	add := func(key tracking.Key, resource Resource) {
		resource.Name, resource.SharedWith = key.String(), d.sharedWith(key, app.ID())
		compareHealth(&resource, app, reported[key], ours[key])
		proof.Resources = append(proof.Resources, resource)
	}
	seen := map[tracking.Key]bool{}
	for _, diff := range diffs {
		seen[diff.Key] = true
		add(diff.Key, judge(diff, reported[diff.Key]))
	}
	for key, one := range reported {
		switch {
		case seen[key]:
		case one.RequiresPruning:
			add(key, Resource{Effect: argosetting.Same, Text: "neither has it in Git"})
		default:
			add(key, Resource{Effect: argosetting.Differs, Text: onlyTheirs})
		}
	}
	slices.SortFunc(proof.Resources, func(x, y Resource) int { return cmp.Compare(x.Name, y.Name) })
}

// onlyTheirs is the text of an object that the runtime does not render. A move
// marks it, so that it would be pruned.
const onlyTheirs = "Argo CD has it in Git, and the runtime does not: a sync with prune would delete it"

// judge compares the state of one object with the one that Argo CD reports; nil
// if it does not list the object.
func judge(diff inspect.ObjectDiff, reported *v1alpha1.ResourceStatus) Resource {
	state, text := diff.State, diff.Text
	if state != plan.Synced {
		state, text = withoutMarks(diff)
	}
	same := Resource{Effect: argosetting.Same}
	differs := func(why string) Resource { return Resource{Effect: argosetting.Differs, Text: why, Diff: text} }
	switch {
	case reported == nil:
		return differs("the runtime has it in Git, and Argo CD does not list it")
	case state == plan.Extra && !reported.RequiresPruning:
		return differs(onlyTheirs)
	case state == plan.Synced, state == plan.Extra:
		return same
	// Both would change it; the move refuses that unless it is forced.
	case reported.Status == v1alpha1.SyncOutOfSync:
		same.Text, same.Diff = "both report it as OutOfSync", text
		return same
	case state == plan.Absent:
		return differs("it is not in the cluster, and the first sync would create it; Argo CD reports " + string(reported.Status))
	}
	return differs("the first sync would change it; Argo CD reports " + string(reported.Status))
}

// withoutMarks compares an object again without the marks of tracking, which the
// move writes itself.
func withoutMarks(diff inspect.ObjectDiff) (plan.SyncState, string) {
	before, after := unmarked(diff.Live), unmarked(diff.Predicted)
	if before != nil && after != nil && reflect.DeepEqual(before.Object, after.Object) {
		return plan.Synced, ""
	}
	text, err := inspect.UnifiedDiff(before, after)
	if err != nil {
		return diff.State, diff.Text
	}
	return diff.State, text
}

// unmarked returns a copy of an object without the marks.
func unmarked(object *unstructured.Unstructured) *unstructured.Unstructured {
	if object == nil {
		return nil
	}
	copied := object.DeepCopy()
	for part, name := range map[string]string{"labels": tracking.Label, "annotations": tracking.Annotation} {
		unstructured.RemoveNestedField(copied.Object, "metadata", part, name)
		if left, _, _ := unstructured.NestedMap(copied.Object, "metadata", part); len(left) == 0 {
			unstructured.RemoveNestedField(copied.Object, "metadata", part)
		}
	}
	return copied
}

// compareHealth compares the health of an object. Newer versions of Argo CD do
// not store it by object; the Application's is compared always.
func compareHealth(resource *Resource, app *inspect.Application, reported *v1alpha1.ResourceStatus, ours *health.Status) {
	if ours != nil {
		resource.Health = ours.Code
	}
	if reported == nil || app.Status.ResourceHealthSource != "" {
		return
	}
	if reported.Health != nil {
		resource.ArgoHealth = reported.Health.Status
	}
	// A missing object is a matter of sync, and has no health here.
	if resource.ArgoHealth == v1alpha1.Missing || sameHealth(resource.ArgoHealth, resource.Health) {
		return
	}
	resource.Effect = worse(resource.Effect, argosetting.Differs)
	text := "its health is " + cmp.Or(string(resource.Health), "none")
	if ours != nil && ours.Message != "" {
		text += " (" + ours.Message + ")"
	}
	resource.Text = cmp.Or(resource.Text, text+"; Argo CD reports "+cmp.Or(string(resource.ArgoHealth), "none"))
}

// sameHealth compares two codes. No health counts as a good one in both programs.
func sameHealth(x, y v1alpha1.HealthCode) bool {
	return cmp.Or(x, v1alpha1.Healthy) == cmp.Or(y, v1alpha1.Healthy)
}
