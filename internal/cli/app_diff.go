package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/jq"
	"slipway.dev/slipway/internal/gitops/live"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// exitDifferent is the exit code of a diff that found something, as diff has it.
const exitDifferent = 1

// fetchParallel is how many objects are read at a time.
const fetchParallel = 8

// diffFlags say what is compared with the cluster.
type diffFlags struct {
	local            string
	revision         string
	controlNamespace string
}

func appDiffCommand(access *appAccess) *cobra.Command {
	given := &diffFlags{}
	command := &cobra.Command{
		Use:   "diff APP",
		Short: "Show what a sync would change",
		Long: `Renders the sources of an Application here, asks the API server what each object
would be (a dry run of the apply itself), and prints the differences. Nothing is
changed. Values of Secrets are not shown.

It runs with your own rights: repositories are opened with the credentials in
the cluster if you may read these Secrets, and the dry run needs the right to
patch the objects.

The exit code is 0 without differences, 1 with differences, and 2 when something
went wrong.`,
		Example: `  slipway app diff shop
  slipway app diff shop --revision feature
  slipway app diff shop --local .`,
		Args: oneName,
		RunE: func(command *cobra.Command, args []string) error {
			different, err := given.run(command, access, args[0])
			switch {
			case err != nil:
				return verdict{code: exitUsage, err: err}
			case different:
				return verdict{code: exitDifferent}
			}
			return nil
		},
	}
	flags := command.Flags()
	flags.StringVar(&given.local, "local", "", "folder of this machine in the place of the repository: the root of a checkout")
	flags.StringVar(&given.revision, "revision", "", "branch, tag or commit to compare with (default that of the source)")
	flags.StringVar(&given.controlNamespace, "control-namespace", "argocd", "control namespace of the agent: credentials are there")
	return command
}

// run compares and prints. It reports whether anything differs.
func (f *diffFlags) run(command *cobra.Command, access *appAccess, name string) (bool, error) {
	if f.local != "" && f.revision != "" {
		return false, errors.New("--local and --revision do not go together: a folder has no revisions")
	}
	cluster, err := access.open()
	if err != nil {
		return false, err
	}
	defer cluster.Close()
	ctx := command.Context()
	app, err := cluster.get(ctx, name)
	if err != nil {
		return false, err
	}
	if len(app.refused) > 0 {
		return false, fmt.Errorf("%s cannot be synced as it is: %s", app.id(), v1alpha1.Summary(app.refused))
	}
	kinds := live.NewKinds(cluster.Cluster)
	rendered, err := f.render(ctx, cluster, app, kinds, command.ErrOrStderr())
	if err != nil {
		return false, err
	}
	compared := &comparison{cluster: cluster, app: app, kinds: kinds, control: f.controlNamespace}
	if err := compared.run(ctx, rendered); err != nil {
		return false, err
	}
	for _, warning := range compared.set.Warnings {
		_, _ = fmt.Fprintln(command.ErrOrStderr(), "warning:", printable(warning.Message))
	}
	return compared.print(command.OutOrStdout(), command.ErrOrStderr())
}

// render renders the sources of the Application for its cluster.
func (f *diffFlags) render(
	ctx context.Context, cluster *appCluster, app *application, kinds *live.Kinds, warnings io.Writer,
) ([]*unstructured.Unstructured, error) {
	version, apis, err := kinds.Version(ctx)
	if err != nil {
		return nil, err
	}
	inputs, closeInputs, err := f.inputs(ctx, cluster, app, warnings)
	if err != nil {
		return nil, err
	}
	defer closeInputs()
	renderer, err := render.New(render.Options{Workers: 1})
	if err != nil {
		return nil, err
	}
	result, err := renderer.Render(ctx, render.Request{
		App: app.Name, Project: app.Spec.ProjectName(), Namespace: app.Spec.Destination.Namespace,
		KubeVersion: version, APIVersions: apis, Inputs: inputs,
	})
	if err = errors.Join(err, renderer.Close()); err != nil {
		return nil, err
	}
	for _, warning := range result.Warnings {
		_, _ = fmt.Fprintln(warnings, "warning:", printable(warning))
	}
	return result.Objects, nil
}

// comparison compares what was rendered with what is live.
type comparison struct {
	cluster *appCluster
	app     *application
	kinds   *live.Kinds
	control string

	set      *plan.Set
	ignore   *plan.Ignore
	live     map[tracking.Key]*unstructured.Unstructured
	after    map[tracking.Key]*unstructured.Unstructured
	statuses []plan.Status
}

// run reads the live objects and predicts what they would be.
func (c *comparison) run(ctx context.Context, rendered []*unstructured.Unstructured) error {
	c.set = plan.Prepare(plan.Source{
		App: c.app.id(), Tracker: tracking.Tracker{ControlNamespace: c.control}, Namespace: c.app.Spec.Destination.Namespace,
		Began: time.Now(), Scope: c.kinds.Scope, Objects: rendered,
	})
	if len(c.set.Refusals) > 0 {
		var refused []error
		for _, refusal := range c.set.Refusals {
			refused = append(refused, refusal)
		}
		return errors.Join(refused...)
	}
	var rules []plan.IgnoreRule
	for _, r := range c.app.Spec.IgnoreDifferences {
		rules = append(rules, plan.IgnoreRule{
			Group: r.Group, Kind: r.Kind, Name: r.Name, Namespace: r.Namespace,
			JSONPointers: r.JSONPointers, JQPathExpressions: r.JQPathExpressions, ManagedFieldsManagers: r.ManagedFieldsManagers,
		})
	}
	var err error
	if c.ignore, err = plan.NewIgnore(rules, jq.New()); err != nil {
		return fmt.Errorf("ignoreDifferences of %s: %w", c.app.id(), err)
	}
	if err := c.fetch(ctx); err != nil {
		return err
	}
	c.after = map[tracking.Key]*unstructured.Unstructured{}
	predict := apply.New(c.cluster.Cluster, c.kinds).Predict(ctx)
	c.statuses, _ = plan.CompareAll(plan.Comparison{
		Set: c.set, Live: c.live, Ignore: c.ignore,
		Predict: func(desired, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			after, err := predict(desired, live)
			if err == nil {
				c.after[tracking.KeyOf(desired)] = after.DeepCopy()
			}
			return after, err
		},
	})
	return nil
}

// fetch reads what is desired, and what the Application has made before.
func (c *comparison) fetch(ctx context.Context) error {
	versions := map[tracking.Key]string{}
	for i := range c.app.Status.Resources {
		resource := &c.app.Status.Resources[i]
		versions[keyOfResource(resource)] = resource.Version
	}
	for _, desired := range c.set.Objects {
		versions[desired.Key] = desired.Object.GroupVersionKind().Version
	}
	cache := live.New(live.Options{Cluster: c.cluster.Cluster, Kinds: c.kinds})
	c.live = map[tracking.Key]*unstructured.Unstructured{}
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
		c.live[object.Key] = object.Unstructured()
	}
	return err
}

// print shows each object that differs.
func (c *comparison) print(out, summary io.Writer) (bool, error) {
	desired := map[tracking.Key]*unstructured.Unstructured{}
	for _, object := range c.set.Resources() {
		desired[object.Key] = object.Object
	}
	var problems []error
	counts := map[plan.SyncState]int{}
	for _, status := range c.statuses {
		if status.Problem != nil {
			problems = append(problems, status.Problem)
			continue
		}
		before, after := c.live[status.Key], c.after[status.Key]
		switch status.State {
		case plan.Synced:
			continue
		case plan.Absent:
			after = desired[status.Key]
		case plan.OutOfSync:
			before = before.DeepCopy()
			c.ignore.Strip(before, after)
		case plan.Extra:
			after = nil
		}
		counts[status.State]++
		if err := printObjectDiff(out, status.Key, before, after); err != nil {
			return false, err
		}
	}
	if len(problems) > 0 {
		return false, errors.Join(problems...)
	}
	different := counts[plan.OutOfSync]+counts[plan.Absent]+counts[plan.Extra] > 0
	if different {
		_, _ = fmt.Fprintf(summary, "%d changed, %d new, %d no longer in Git (deleted by a sync with prune)\n",
			counts[plan.OutOfSync], counts[plan.Absent], counts[plan.Extra])
	}
	return different, nil
}
