package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"helm.sh/helm/v4/pkg/action"
	helmrelease "helm.sh/helm/v4/pkg/release/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/secret"
)

// Action is what is done to an object.
type Action string

// The actions.
const (
	Create Action = "create"
	Update Action = "change"
	Delete Action = "delete"
)

// Change is an object that an operation touches.
type Change struct {
	Action Action
	ID
	// Passing is set for what exists during the operation only, such as hooks.
	Passing bool
	// Before and After are the object; either is nil. They may have secrets in them:
	// mask them before they are shown.
	Before, After *unstructured.Unstructured
}

// ClusterScoped reports whether the object is outside of namespaces.
func (c Change) ClusterScoped() bool { return c.Namespace == "" }

// Secret is created beside the release, because its content must not be in the
// values.
type Secret struct {
	Name string
	Data map[string]secret.Text
}

// Spec is what is to be installed.
type Spec struct {
	Chart *Chart
	// Values are complete: nothing is taken from an earlier revision.
	Values map[string]any
	// Secrets are created before the release.
	Secrets []Secret
	// TakeOver lets an upgrade take over fields that other tools have changed.
	// Without it they are conflicts.
	TakeOver bool
}

// Plan is what an operation will do. It is valid until the cluster changes.
type Plan struct {
	Place
	// Chart and Version are what is installed, and From the version before; it is
	// empty for an installation.
	Chart, Version, From string
	// Revision is the one that is made.
	Revision int
	Changes  []Change
	// Remarks are notes for the user.
	Remarks []string

	// spec is what was requested, before the deployed release (nil for an
	// installation), and after the release as Helm renders it.
	spec   Spec
	before *helmrelease.Release
	after  *helmrelease.Release
	// newNamespace is set if the namespace does not exist yet.
	newNamespace bool
	// crds are the definitions that are missing or change.
	crds []*unstructured.Unstructured
}

// Install reports whether there is no release yet.
func (p *Plan) Install() bool { return p.before == nil }

// Empty reports whether an upgrade would change nothing. Hooks do not count:
// they run in every upgrade. Changed values count even if no object changes,
// because Helm stores them.
func (p *Plan) Empty() bool {
	return !p.Install() && !slices.ContainsFunc(p.Changes, func(c Change) bool { return !c.Passing }) && reflect.DeepEqual(p.before.Config, p.spec.Values)
}

// Plan computes what an installation or an upgrade would do. Helm renders and
// the API server does dry runs; nothing is changed.
func (c *Client) Plan(ctx context.Context, spec Spec) (*Plan, error) {
	all, err := c.history(ctx)
	if err != nil {
		return nil, err
	}
	plan := &Plan{Place: c.place, Chart: spec.Chart.Name(), Version: spec.Chart.Version(), Revision: 1, spec: spec}
	// The history decides between install and upgrade, so it comes before the
	// dry run.
	if len(all) > 0 {
		if err := c.planOver(plan, all); err != nil {
			return nil, err
		}
	}
	if plan.after, err = c.rehearse(ctx, plan); err != nil {
		return nil, fmt.Errorf("plan the release %s: %w", c.place, shortError(err))
	}
	if err := c.planPlace(ctx, plan); err != nil {
		return nil, err
	}
	if err := c.planCRDs(ctx, plan); err != nil {
		return nil, err
	}
	if err := c.compare(plan); err != nil {
		return nil, err
	}
	// The changes come from maps. Sorting makes the plan stable.
	slices.SortStableFunc(plan.Changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return plan, nil
}

// rank orders changes for display: namespace, definitions, cluster-scoped
// objects, namespaced objects, and last what exists during the operation only.
func rank(c Change) int {
	switch {
	case c.Kind == "Namespace":
		return 0
	case c.Kind == crdKind:
		return 1
	case c.Passing:
		return 4
	case c.ClusterScoped():
		return 2
	}
	return 3
}

// planOver plans over an existing release.
func (c *Client) planOver(plan *Plan, all []*helmrelease.Release) error {
	last := newest(all)
	// Another operation works on the release, or one was killed.
	if last.Info.Status.IsPending() {
		return fmt.Errorf("the release %s is %s since %s: wait for the operation that works on it; if none does, run helm rollback %s --namespace %s, or uninstall it",
			c.place, last.Info.Status, last.Info.LastDeployed.UTC().Format("2006-01-02 15:04"), c.place.Release, c.place.Namespace)
	}
	// A failed revision is no base: the changes are those since the last one
	// that was deployed.
	plan.before = deployed(all)
	if plan.before == nil {
		return fmt.Errorf("the release %s is %s, and no revision of it was ever in order: uninstall it first with slipway runtime uninstall NAME, or helm uninstall %s --namespace %s",
			c.place, last.Info.Status, c.place.Release, c.place.Namespace)
	}
	plan.Revision = last.Version + 1
	if chart := plan.before.Chart; chart != nil && chart.Metadata != nil {
		plan.From = chart.Metadata.Version
	}
	return nil
}

// rehearse runs Helm without writing. Templates see the real cluster, because
// the dry run is the server's.
func (c *Client) rehearse(ctx context.Context, plan *Plan) (*helmrelease.Release, error) {
	var made any
	var err error
	// The values are cloned: Helm may write into the map that it gets.
	if plan.Install() {
		install := action.NewInstall(c.config)
		install.ReleaseName, install.Namespace, install.DryRunStrategy, install.SkipCRDs = c.place.Release, c.place.Namespace, action.DryRunServer, true
		made, err = install.RunWithContext(ctx, plan.spec.Chart.loaded, maps.Clone(plan.spec.Values))
	} else {
		upgrade := action.NewUpgrade(c.config)
		upgrade.Namespace, upgrade.DryRunStrategy, upgrade.ResetValues = c.place.Namespace, action.DryRunServer, true
		made, err = upgrade.RunWithContext(ctx, c.place.Release, plan.spec.Chart.loaded, maps.Clone(plan.spec.Values))
	}
	if err != nil {
		return nil, err
	}
	release, ok := made.(*helmrelease.Release)
	if !ok {
		return nil, errors.New("the library of Helm gave a release of another kind")
	}
	return release, nil
}

// planPlace plans the namespace and the Secrets.
func (c *Client) planPlace(ctx context.Context, plan *Plan) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	found, err := c.cluster.Client.CoreV1().Namespaces().Get(ctx, c.place.Namespace, metav1.GetOptions{})
	switch {
	case err == nil && found.Status.Phase == corev1.NamespaceTerminating:
		return fmt.Errorf("the namespace %[1]s is being deleted: wait until it is gone with kubectl wait --for=delete namespace/%[1]s --timeout=10m", c.place.Namespace)
	case apierrors.IsNotFound(err):
		plan.newNamespace = true
		plan.Changes = append(plan.Changes, Change{Action: Create, ID: ID{Kind: "Namespace", Name: c.place.Namespace}})
	case apierrors.IsForbidden(err): // it may be there all the same
	case err != nil:
		return fmt.Errorf("read the namespace %s: %w", c.place.Namespace, err)
	}
	for _, one := range plan.spec.Secrets {
		change, err := c.planSecret(ctx, one, plan.newNamespace)
		if err != nil {
			return err
		}
		plan.Changes = append(plan.Changes, change)
	}
	return nil
}

// compare computes the changes between two manifests: that of the deployed
// revision and the new one. Helm's upgrade starts from the same two.
func (c *Client) compare(plan *Plan) error {
	before := map[ID]*unstructured.Unstructured{}
	if plan.before != nil {
		found, err := c.index(plan.before.Manifest)
		if err != nil {
			return err
		}
		before = found
	}
	after, err := c.index(plan.after.Manifest)
	if err != nil {
		return err
	}
	for id, object := range after {
		old := before[id]
		switch {
		case old == nil:
			plan.Changes = append(plan.Changes, Change{Action: Create, ID: id, After: object})
		case !reflect.DeepEqual(old.Object, object.Object):
			plan.Changes = append(plan.Changes, Change{Action: Update, ID: id, Before: old, After: object})
		}
	}
	// Helm deletes what the new manifest does not have any more.
	for id, object := range before {
		if after[id] == nil {
			plan.Changes = append(plan.Changes, Change{Action: Delete, ID: id, Before: object})
		}
	}
	for _, hook := range plan.after.Hooks {
		if !runs(hook, plan.Install()) {
			continue
		}
		passing, err := c.index(hook.Manifest)
		if err != nil {
			return err
		}
		for id, object := range passing {
			plan.Changes = append(plan.Changes, Change{Action: Create, ID: id, Passing: true, After: object})
		}
	}
	return nil
}

// runs reports whether a hook is run by the operation.
func runs(hook *helmrelease.Hook, install bool) bool {
	events := []helmrelease.HookEvent{helmrelease.HookPreUpgrade, helmrelease.HookPostUpgrade}
	if install {
		events = []helmrelease.HookEvent{helmrelease.HookPreInstall, helmrelease.HookPostInstall}
	}
	return slices.ContainsFunc(hook.Events, func(event helmrelease.HookEvent) bool { return slices.Contains(events, event) })
}

// index decodes a manifest by object.
func (c *Client) index(manifest string) (map[ID]*unstructured.Unstructured, error) {
	objects, err := objectsOf(manifest)
	if err != nil {
		return nil, fmt.Errorf("read the manifest of the release %s: %w", c.place, err)
	}
	all := map[ID]*unstructured.Unstructured{}
	for _, object := range objects {
		id, err := c.identify(object)
		if err != nil {
			return nil, err
		}
		all[id] = object
	}
	return all, nil
}

// Notes returns the chart's notes.
func (p *Plan) Notes() string { return p.after.Info.Notes }
