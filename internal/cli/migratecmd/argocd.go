// Package migratecmd is the command slipway migrate: what another program has,
// reported and taken over.
//
// It works on the cluster itself, with the user's rights: what is taken over is
// not part of a runtime yet.
package migratecmd

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/kubeflags"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/install/release"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/migration"
)

// Command returns the command slipway migrate.
func Command() *cobra.Command {
	command := &cobra.Command{
		Use:   "migrate",
		Short: "Report and take over what another program delivers",
	}
	command.AddCommand(argocdCommand(), gatewayCommand(), reportCommand(), shadowCommand())
	return command
}

// argocdFlags select Applications and what to do with them.
type argocdFlags struct {
	choice kube.UserChoice
	// namespace is that of Argo CD, and to that of the runtime.
	namespace, to                string
	project, selector, set       string
	takeOver, back, copySettings bool
	all, force, dryRun, agreed   bool
	groupSize                    int
	timeout                      time.Duration
	output                       *printer.Output
	// names are the arguments.
	names []string
}

// argocdCommand returns the command slipway migrate argocd.
func argocdCommand() *cobra.Command {
	given := &argocdFlags{}
	command := &cobra.Command{
		Use:   "argocd [NAMESPACE/NAME...]",
		Short: "Report what an Argo CD becomes in a runtime, and take its Applications over in groups",
		Long: `Reads an installation of Argo CD and reports each object and each of its fields as
same, no effect (with the reason), differs or refused (with what to do): Applications,
AppProjects, ApplicationSets, argocd-cm, argocd-cmd-params-cm, argocd-rbac-cm, and the
Secrets of repositories and clusters. Applications are rendered at the revision that
Argo CD has compared, and applied as a dry run: the report has the objects that the
first sync would change, the health of both, objects that several Applications have,
and objects that none has. Nothing is changed.

With --take-over it moves the selected Applications that are the same, group by group,
as slipway app migrate does. A group with an obstacle is not begun, and the first
failure stops. With --back it returns Applications to Argo CD. Select them by name,
--project or --selector, or use --all. --set moves an ApplicationSet together with
all its Applications.

With --copy-settings it copies what the runtime lacks of its own: Secrets of
repositories, known hosts, certificate authorities, and the settings of argocd-cm
that are used. What the runtime has is kept.

It works on the cluster itself, with your own permissions.`,
		Example: `  slipway migrate argocd
  slipway migrate argocd -o json
  slipway migrate argocd argocd/shop
  slipway migrate argocd --copy-settings
  slipway migrate argocd --project team-a --take-over
  slipway migrate argocd --project team-a --back
  slipway migrate argocd --set argocd/teams --take-over
  slipway migrate argocd --all --take-over --group-size 20 --yes`,
	}
	flags := command.Flags()
	kubeflags.Add(flags, &given.choice)
	flags.StringVarP(&given.namespace, "namespace", "n", "argocd", "namespace of Argo CD")
	flags.StringVar(&given.to, "to", release.DefaultNamespace, "namespace of the runtime, to which Applications are moved")
	flags.StringVar(&given.project, "project", "", "only Applications of this AppProject")
	flags.StringVarP(&given.selector, "selector", "l", "", "only Applications with these labels")
	flags.StringVar(&given.set, "set", "", "an ApplicationSet and all its Applications, as NAME or NAMESPACE/NAME")
	flags.BoolVar(&given.all, "all", false, "take over or return all Applications")
	flags.BoolVar(&given.takeOver, "take-over", false, "move the selected Applications to the runtime")
	flags.BoolVar(&given.back, "back", false, "return the selected Applications to Argo CD, unchanged")
	flags.BoolVar(&given.copySettings, "copy-settings", false, "copy Secrets of repositories and ConfigMaps that the runtime lacks")
	flags.IntVar(&given.groupSize, "group-size", 10, "number of Applications that are moved after one confirmation")
	flags.BoolVar(&given.force, "force", false, "also move Applications that differ, that are not synced, or that a parent Application has in Git")
	flags.BoolVar(&given.dryRun, "dry-run", false, "show all writes without making them")
	flags.BoolVar(&given.agreed, "yes", false, "do not ask for confirmation")
	flags.DurationVar(&given.timeout, "timeout", 2*time.Minute, "time for the runtime to compare each Application with Git")
	given.output = printer.NewOutput(command, printer.FormJSON, printer.FormYAML)
	command.RunE = func(command *cobra.Command, args []string) error {
		given.names = args
		return given.run(command)
	}
	return command
}

// run checks the flags and does one of report, take-over and return.
func (f *argocdFlags) run(command *cobra.Command) error {
	if err := f.check(); err != nil {
		return exit.UsageError{Err: err}
	}
	selects, err := f.selected()
	if err != nil {
		return exit.UsageError{Err: err}
	}
	cluster, err := kubeflags.Connect(f.choice)
	if err != nil {
		return err
	}
	defer cluster.Close()
	switch {
	case f.back && f.set != "":
		return f.giveSetBack(command, cluster)
	case f.back:
		return f.giveBack(command, cluster, selects)
	}
	if f.copySettings {
		selects = func(tracking.App, *inspect.Application) bool { return false }
	}
	report, err := f.assess(command, cluster, selects)
	if err != nil {
		return err
	}
	if f.copySettings {
		return f.copy(command, cluster, report)
	}
	if err := f.checkNames(report); err != nil {
		return err
	}
	switch {
	case f.takeOver && f.set != "":
		return f.moveSet(command, cluster, report)
	case f.takeOver:
		return f.moveGroups(command, cluster, report)
	}
	return f.print(command, report)
}

// check refuses flags that do not go together.
func (f *argocdFlags) check() error {
	chosen := len(f.names) > 0 || f.project != "" || f.selector != ""
	switch {
	case f.set != "" && (chosen || f.all):
		return errors.New("--set does not go with names, --project, --selector or --all")
	case f.takeOver && f.back:
		return errors.New("--take-over and --back do not go together")
	case f.copySettings && (f.takeOver || f.back || chosen || f.all || f.set != ""):
		return errors.New("--copy-settings is for the whole installation: use it without Applications, before --take-over")
	case f.namespace == f.to:
		return errors.New("the runtime and Argo CD have the same namespace: install the runtime to one of its own, and name it with --to")
	case f.all && chosen:
		return errors.New("--all does not go with names, --project or --selector")
	case (f.takeOver || f.back) && !chosen && !f.all && f.set == "":
		return errors.New("which Applications? write NAMESPACE/NAME, --project, --selector, --set or --all")
	case f.groupSize < 1:
		return errors.New("--group-size is at least 1")
	}
	return nil
}

// selected returns the choice of Applications. A name without a namespace is one
// of Argo CD's namespace. The origin is where Argo CD has, or had, it.
func (f *argocdFlags) selected() (func(origin tracking.App, app *inspect.Application) bool, error) {
	if f.set != "" {
		return f.generated()
	}
	labelled, err := labels.Parse(f.selector)
	if err != nil {
		return nil, fmt.Errorf("--selector: %w", err)
	}
	named := map[tracking.App]bool{}
	for _, name := range f.names {
		place, err := tracking.ParseApp(f.namespace, name)
		if err != nil {
			return nil, err
		}
		named[place] = true
	}
	return func(origin tracking.App, app *inspect.Application) bool {
		return (len(named) == 0 || named[origin]) && (f.project == "" || app.Spec.ProjectName() == f.project) && labelled.Matches(labels.Set(app.Labels))
	}, nil
}

// checkNames fails for a name that no Application has: a misspelt one would be
// left out silently.
func (f *argocdFlags) checkNames(report *migration.Report) error {
	for _, name := range f.names {
		place, err := tracking.ParseApp(f.namespace, name)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(report.Applications(), func(o *migration.Object) bool { return o.ID() == place }) {
			return fmt.Errorf("there is no Application %s of Argo CD that is selected: slipway migrate argocd without a name lists them", place)
		}
	}
	return nil
}

// assess makes the report, with a renderer of its own.
func (f *argocdFlags) assess(command *cobra.Command, cluster *kube.Cluster, selects func(tracking.App, *inspect.Application) bool) (*migration.Report, error) {
	renderer, err := render.New(render.Options{})
	if err != nil {
		return nil, err
	}
	report, err := migration.Assess(command.Context(), migration.Options{
		Cluster: cluster, Namespace: f.namespace, ControlNamespace: f.to, Renderer: renderer,
		Select: func(app *inspect.Application) bool { return selects(app.ID(), app) },
	})
	return report, errors.Join(err, renderer.Close())
}
