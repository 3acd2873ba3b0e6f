package runtimecmd

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/agent/sharedrepo"
	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/install/release"
	"slipway.dev/slipway/internal/install/values"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// upgradeFlags say what a runtime is upgraded to.
type upgradeFlags struct {
	releaseFlags
	reset, force bool
	print        string
}

// runtimeUpgradeCommand upgrades a runtime (R110, R111).
func runtimeUpgradeCommand(choice *apiclient.Choice) *cobra.Command {
	given := &upgradeFlags{}
	command := &cobra.Command{
		Use:   "upgrade NAME",
		Short: "Upgrade a runtime, or change its values",
		Long: `Upgrades a runtime with Helm's library: it checks the values, runs the checks of
slipway preflight, shows what changes as a diff without the values of Secrets, asks,
upgrades, says what it waits for, and ends when the runtime is online in the new
version. What is not healthy within --timeout goes back to the revision before, with
the reason.

The values that were given before are kept, over the defaults of the new chart; those
of files and --set go over them. --reset-values forgets those before. A chart that is
older than the one that is installed is refused without --force.

A runtime that is an Application of itself is upgraded in the Shared Configuration
Repository: it says in which file, and changes nothing. --print helm prints the
command of Helm that does the same.`,
		Example: `  slipway runtime upgrade prod
  slipway runtime upgrade prod --set edge.replicas=3 --dry-run
  slipway runtime upgrade prod --chart oci://charts.example.com/gitops-runtime --version 0.2.0 --yes`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: choice.CompleteRuntimeArg,
	}
	given.add(command)
	flags := command.Flags()
	flags.BoolVar(&given.reset, "reset-values", false, "forget the values that were given before")
	flags.BoolVar(&given.force, "force", false, "also take an older version, and also upgrade a runtime that is an Application of itself")
	flags.StringVar(&given.print, "print", "", "print what upgrades it, and change nothing: helm")
	command.RunE = func(command *cobra.Command, args []string) error {
		client, err := apiclient.OpenOptional(choice)
		if err != nil {
			return err
		}
		if client != nil {
			defer client.Close()
		}
		return runUpgrade(command, client, args[0], given)
	}
	return command
}

func runUpgrade(command *cobra.Command, client *apiclient.Client, name string, given *upgradeFlags) error {
	if given.print != "" && given.print != "helm" {
		return exit.UsageError{Err: fmt.Errorf("--print %q is not helm", given.print)}
	}
	known, err := client.KnownRuntime(command, name)
	if err != nil {
		return err
	}
	if !command.Flags().Changed("namespace") && known.GetNamespace() != "" {
		given.namespace = known.GetNamespace()
	}
	if given.print == "helm" {
		return printHelmUpgrade(command.OutOrStdout(), known, given)
	}
	o := &operation{command: command, given: &given.releaseFlags, platform: client, known: true, force: given.force}
	if o.chart, err = given.findChart(command.Context()); err != nil {
		return err
	}
	if err := o.open(); err != nil {
		return err
	}
	defer o.close()
	current, err := o.client.Current(command.Context())
	if err != nil {
		return err
	}
	if current == nil {
		return fmt.Errorf("there is no release %s/%s in this cluster: choose the cluster with --context, name the release with --release and --namespace, or install the runtime",
			given.namespace, given.release)
	}
	before := current.Values
	if given.reset {
		before = nil
	}
	if err := o.settle(before, nil); err != nil {
		return err
	}
	if is := values.New(values.Runtime(), current.Values).Text(values.KeyRuntimeName); is != name {
		return exit.UsageError{Err: fmt.Errorf("the release %s/%s is the runtime %s, and not %s: choose the cluster and the namespace of %s", given.namespace, given.release, printer.Printable(is), printer.Printable(name), printer.Printable(name))}
	}
	if o.name() != name {
		return exit.UsageError{Err: fmt.Errorf("the values name the runtime %s: runtimes are not renamed", printer.Printable(o.name()))}
	}
	if err := o.refuseApplication(name, current, given); err != nil {
		return err
	}
	printer.Note(command, "%s", keptValues(current, given))
	o.question = fmt.Sprintf("Upgrade the runtime %s?", printer.Printable(name))
	o.done = fmt.Sprintf("The runtime %s is upgraded.", name)
	return o.run()
}

// keptValues says where values come from.
func keptValues(current *release.State, given *upgradeFlags) string {
	if given.reset {
		return "The values that were given before are forgotten: those of the files, of --set and the defaults of the chart are used."
	}
	return fmt.Sprintf("The values of revision %d are kept (%d groups), over the defaults of the chart.", current.Revision, len(current.Values))
}

// refuseApplication says what to do for a runtime that is kept in Git: a change by
// Helm would be taken back.
func (o *operation) refuseApplication(name string, current *release.State, given *upgradeFlags) error {
	if given.force {
		return nil
	}
	found, err := o.cluster.Dynamic.Resource(v1alpha1.ApplicationResource()).Namespace(given.namespace).Get(o.command.Context(), name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err) || apierrors.IsForbidden(err):
		return nil
	case err != nil:
		return fmt.Errorf("read the Application %s/%s: %w", given.namespace, name, err)
	case found.GetLabels()[sharedrepo.EntityLabel] != sharedrepo.EntityRuntime:
		return nil
	}
	if err := printGitUpgrade(o.command, o.platform, name, cmp.Or(given.version, o.chart.Version(), current.Version)); err != nil {
		return err
	}
	return errors.New("the runtime is an Application of itself, and Git would take the change back: nothing was changed; --force does it all the same")
}

func printHelmUpgrade(w io.Writer, runtime *platformv1.Runtime, given *upgradeFlags) error {
	version := cmp.Or(given.version, runtime.GetUpdateAvailable())
	line := fmt.Sprintf("helm upgrade %s %s --namespace %s", shellWord(given.release), shellWord(cmp.Or(given.chart, release.DefaultChart)), shellWord(given.namespace))
	if version != "" {
		line += " --version " + shellWord(version)
	}
	keep := " --reset-then-reuse-values"
	if given.reset {
		keep = " --reset-values"
	}
	line += keep
	for _, file := range given.files {
		line += " --values " + shellWord(file)
	}
	for _, set := range given.sets {
		line += " --set " + shellWord(set)
	}
	for _, set := range given.textSets {
		line += " --set-string " + shellWord(set)
	}
	_, err := fmt.Fprintln(w, line+" --wait")
	return err
}

// printGitUpgrade says which file has the version of a runtime that is an
// Application (R110).
func printGitUpgrade(command *cobra.Command, client *apiclient.Client, runtime, version string) error {
	repository := ""
	if client != nil {
		settings, err := apiclient.Call(command.Context(), client, client.Git().GetGitSettings, &platformv1.GetGitSettingsRequest{})
		if err != nil {
			return err
		}
		repository = settings.GetSettings().GetSharedRepository()
	}
	_, err := fmt.Fprintf(command.OutOrStdout(), `# %[1]s is an Application of itself. In the Shared Configuration Repository
#   %[2]s
# set version and dependencies[0].version to %[3]s in
#   resources/%[1]s/chart/Chart.yaml
# and push. slipway app wait shows when it is done.
`, printer.Printable(runtime), printer.Printable(printer.OrDash(repository)), printer.Printable(version))
	return err
}
