package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/agent/sharedrepo"
	"slipway.dev/slipway/internal/install/handover"
	"slipway.dev/slipway/internal/install/release"
	"slipway.dev/slipway/internal/install/values"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// UpgradeOptions describe what a runtime is upgraded to.
type UpgradeOptions struct {
	Options
	// ResetValues drops the values of the installed release.
	ResetValues bool
	// Force allows an older chart, and upgrades a runtime that is kept in Git.
	Force bool
	// Reapply writes all objects again as the chart has them, and takes over
	// fields that other tools have changed.
	Reapply bool
	// Print is helm to print the command of Helm instead of upgrading.
	Print string
}

// Upgrade upgrades a runtime or changes its values. platform is nil if none is
// chosen.
func Upgrade(ctx context.Context, ui UI, platform Platform, name string, options *UpgradeOptions) error {
	if options.Print != "" && options.Print != "helm" {
		return InvalidError{fmt.Errorf("--print %q is not helm", options.Print)}
	}
	var registered *platformv1.Runtime
	if platform != nil {
		var err error
		if registered, err = platform.Runtime(ctx, name); err != nil {
			return err
		}
	}
	// The namespace of the registration wins over the default, and one that the
	// user chose over both.
	if !options.NamespaceGiven && registered.GetNamespace() != "" {
		options.Namespace = registered.GetNamespace()
	}
	if options.Print == "helm" {
		_, err := fmt.Fprintln(ui.Output(), options.helmCommand(registered))
		return err
	}
	// registered is set so that validation and preflight do not take the
	// runtime's own name for a conflict.
	o := &operation{ui: ui, options: &options.Options, platform: platform, registered: true, allowOlder: options.Force, reapply: options.Reapply}
	var err error
	if o.chart, err = options.findChart(ctx); err != nil {
		return err
	}
	if err := o.open(); err != nil {
		return err
	}
	defer o.close()
	current, err := o.client.Current(ctx)
	if err != nil {
		return err
	}
	if current == nil {
		return fmt.Errorf("there is no release %s/%s in this cluster: choose the cluster with --context, name the release with --release and --namespace, or install the runtime",
			options.Namespace, options.Release)
	}
	if err := options.prepare(ctx, o, name, current); err != nil {
		return err
	}
	return o.run(ctx)
}

// prepare merges the values, and refuses a release of another runtime and a runtime
// that Git would change back.
func (g *UpgradeOptions) prepare(ctx context.Context, o *operation, name string, current *release.State) error {
	// Values of the release are the base unless they are reset, as with helm
	// upgrade --reset-then-reuse-values.
	before := current.Values
	if g.ResetValues {
		before = nil
	}
	if err := o.mergeValues(before, nil); err != nil {
		return err
	}
	// The name is compared with the values of the release: the merged values
	// may have another by mistake, which is a separate error.
	if is := values.New(values.Runtime(), current.Values).Text(values.KeyRuntimeName); is != name {
		return InvalidError{fmt.Errorf("the release %s/%s is the runtime %s, and not %s: choose the cluster and the namespace of %s", g.Namespace, g.Release, is, name, name)}
	}
	if o.name() != name {
		return InvalidError{fmt.Errorf("the values name the runtime %s: a runtime cannot be renamed", o.name())}
	}
	if err := g.refuseApplication(ctx, o, name, current); err != nil {
		return err
	}
	if g.ResetValues {
		o.ui.Note("The values of the release are dropped: those of the files, of --set and the defaults of the chart are used.")
	} else {
		o.ui.Note("%s", fmt.Sprintf("The values of revision %d are kept, over the defaults of the chart.", current.Revision))
	}
	o.question = fmt.Sprintf("Upgrade the runtime %s?", name)
	o.done = fmt.Sprintf("The runtime %s is upgraded.", name)
	return nil
}

// refuseApplication refuses to upgrade a runtime that is an Application of itself,
// and prints what to change in Git instead: its agent would undo a change by Helm.
func (g *UpgradeOptions) refuseApplication(ctx context.Context, o *operation, name string, current *release.State) error {
	if g.Force {
		return nil
	}
	found, err := o.cluster.Dynamic.Resource(v1alpha1.ApplicationResource()).Namespace(g.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err) || apierrors.IsForbidden(err):
		// Without the kind, or the right to read it, nothing shows that Git
		// would undo the change.
		return nil
	case err != nil:
		return fmt.Errorf("read the Application %s/%s: %w", g.Namespace, name, err)
	case found.GetLabels()[sharedrepo.EntityLabel] != sharedrepo.EntityRuntime:
		return nil
	}
	if err := g.printGitUpgrade(ctx, o, name, current); err != nil {
		return err
	}
	return errors.New("the runtime is an Application of itself, and Git would undo the change: nothing was changed; --force does it all the same")
}

// helmCommand returns the command of Helm that does the same.
func (g *UpgradeOptions) helmCommand(runtime *platformv1.Runtime) string {
	words := []string{
		"helm upgrade", handover.ShellWord(g.Release), handover.ShellWord(cmp.Or(g.Chart, release.DefaultChart)), "--namespace", handover.ShellWord(g.Namespace),
	}
	// Without a version of the user, the command names the platform's update.
	// Without that, Helm takes the newest.
	if version := cmp.Or(g.Version, runtime.GetUpdateAvailable()); version != "" {
		words = append(words, "--version", handover.ShellWord(version))
	}
	// --reset-then-reuse-values applies the values of the release over the
	// defaults of the new chart. --reuse-values would keep the old defaults.
	if g.ResetValues {
		words = append(words, "--reset-values")
	} else {
		words = append(words, "--reset-then-reuse-values")
	}
	for _, each := range []struct {
		flag   string
		values []string
	}{{"--values", g.Files}, {"--set", g.Sets}, {"--set-string", g.TextSets}} {
		for _, value := range each.values {
			words = append(words, each.flag, handover.ShellWord(value))
		}
	}
	return strings.Join(append(words, "--wait"), " ")
}
