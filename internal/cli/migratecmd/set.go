package migratecmd

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/cli/prompt"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/migrate"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/migration"
)

// generated returns the choice of the Applications of --set.
func (f *argocdFlags) generated() (func(tracking.App, *inspect.Application) bool, error) {
	set, err := f.setPlace()
	return func(origin tracking.App, app *inspect.Application) bool {
		return origin.Namespace == set.Namespace && slices.ContainsFunc(app.OwnerReferences, func(owner metav1.OwnerReference) bool {
			return owner.Kind == v1alpha1.KindApplicationSet && owner.Name == set.Name
		})
	}, err
}

// setPlace parses --set. The error is that of a name of an Application: both have
// the same form.
func (f *argocdFlags) setPlace() (tracking.App, error) {
	set, err := tracking.ParseApp(f.namespace, f.set)
	if err != nil {
		err = fmt.Errorf("--set: %q is no name of an ApplicationSet: write NAME, or NAMESPACE/NAME", f.set)
	}
	return set, err
}

// setOptions returns the options of the move of a set.
func (f *argocdFlags) setOptions(command *cobra.Command, cluster *kube.Cluster) (migrate.SetOptions, error) {
	set, err := f.setPlace()
	return migrate.SetOptions{
		Cluster: cluster, Set: set, ControlNamespace: f.to, Force: f.force, Wait: f.timeout, DryRun: f.dryRun, Report: noteWrites(command),
	}, err
}

// moveSet takes a set and its Applications over, all or none.
func (f *argocdFlags) moveSet(command *cobra.Command, cluster *kube.Cluster, report *migration.Report) error {
	options, err := f.setOptions(command, cluster)
	if err != nil {
		return err
	}
	result := outcome{Moved: []migrate.Report{}, Skipped: report.NotReady(options.Set, f.force)}
	if len(result.Skipped) > 0 {
		if err := f.printSkipped(command, report, result.Skipped); err != nil {
			return err
		}
		return f.finish(command, &result, "taken over")
	}
	for _, object := range report.Applications() {
		printer.Note(command, "%s", object.ID())
	}
	if !f.dryRun {
		if err := prompt.New(command).Confirm("Take over the ApplicationSet "+options.Set.String()+" and its Applications?", f.agreed); err != nil {
			return err
		}
	}
	moved, err := migrate.RunSet(command.Context(), options)
	if err != nil {
		return fmt.Errorf("%w; return everything with slipway migrate argocd --set %s --back, or correct this and start again", err, options.Set)
	}
	if f.dryRun {
		return nil
	}
	result.Moved = moved
	return f.finish(command, &result, "taken over")
}

// giveSetBack returns a set and its Applications.
func (f *argocdFlags) giveSetBack(command *cobra.Command, cluster *kube.Cluster) error {
	options, err := f.setOptions(command, cluster)
	if err != nil {
		return err
	}
	if !f.dryRun {
		if err := prompt.New(command).Confirm("Return the ApplicationSet "+options.Set.String()+" and its Applications to Argo CD?", f.agreed); err != nil {
			return err
		}
	}
	result := outcome{}
	if result.Moved, err = migrate.BackSet(command.Context(), options); err != nil || f.dryRun {
		return err
	}
	return f.finish(command, &result, "returned")
}
