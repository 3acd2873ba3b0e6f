package runtimecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/agent/sharedrepo"
	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/cli/buildinfo"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/kubeflags"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/cli/prompt"
	"slipway.dev/slipway/internal/install/release"
	"slipway.dev/slipway/internal/install/values"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/wire/platformv1"
)

const (
	// uninstallTimeout bounds each of the two steps of an uninstall.
	uninstallTimeout = 5 * time.Minute
	// askEvery is how often the platform is asked while something is waited for.
	askEvery = time.Second
)

// uninstallFlags say what goes with a runtime.
type uninstallFlags struct {
	local              kube.UserChoice
	release, namespace string
	cleanRepository    bool
	gitSources         bool
	force, yes, dryRun bool
	print              string
	timeout            time.Duration
	output             *printer.Output
}

// runtimeUninstallCommand uninstalls a runtime (R113).
func runtimeUninstallCommand(choice *apiclient.Choice) *cobra.Command {
	given := &uninstallFlags{}
	command := &cobra.Command{
		Use: "uninstall NAME", Short: "Uninstall a runtime, and say what is left",
		Long: `Uninstalls a runtime: it asks the runtime to clean up and to take leave of the
platform, waits for that, removes the Helm release, waits until its objects are gone,
and lists what is left with the command that removes each: CustomResourceDefinitions,
volumes, Secrets, Applications, the namespace. What the runtime has delivered stays.

--clean-shared-repository also has its files in the Shared Configuration Repository
removed, and --git-sources its Git Sources in the cluster; what they delivered stays.
A runtime that is offline cannot clean up: --force goes on without, and has the platform
forget it. --print helm has it clean up, and prints the command that removes it from
its cluster.`,
		Example: `  slipway runtime uninstall prod
  slipway runtime uninstall prod --clean-shared-repository --git-sources --yes
  slipway runtime uninstall lost --force`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: choice.CompleteRuntimeArg,
	}
	flags := command.Flags()
	kubeflags.Add(command, &given.local)
	flags.StringVarP(&given.namespace, "namespace", "n", release.DefaultNamespace, "namespace of the runtime (default what the platform knows)")
	flags.StringVar(&given.release, "release", release.DefaultName, "name of the Helm release")
	flags.BoolVar(&given.cleanRepository, "clean-shared-repository", false, "also remove what it has in the Shared Configuration Repository")
	flags.BoolVar(&given.gitSources, "git-sources", false, "also delete its Git Sources in the cluster; what they delivered stays")
	flags.BoolVar(&given.force, "force", false, "go on when the runtime or the platform does not answer")
	flags.BoolVarP(&given.yes, "yes", "y", false, "do not ask")
	flags.BoolVar(&given.dryRun, "dry-run", false, "show what would be deleted, and change nothing")
	flags.StringVar(&given.print, "print", "", "have it clean up, and print what removes it then: helm")
	flags.DurationVar(&given.timeout, "timeout", uninstallTimeout, "how long cleaning up and deleting may take, each")
	given.output = printer.NewOutput(command, printer.FormJSON, printer.FormYAML)
	command.RunE = func(command *cobra.Command, args []string) error {
		if err := given.output.Check(); err != nil {
			return err
		}
		client, err := apiclient.OpenOptional(choice)
		if err != nil {
			return err
		}
		if client != nil {
			defer client.Close()
		}
		u := &uninstallation{command: command, given: given, platform: client, name: args[0]}
		return u.run(command.Context())
	}
	return command
}

// uninstallation is one uninstall.
type uninstallation struct {
	command  *cobra.Command
	given    *uninstallFlags
	platform *apiclient.Client
	name     string
	// known is what the platform knows; nil when it knows nothing.
	known *platformv1.Runtime
	// sources are the Git Sources that it had.
	sources []*platformv1.GitSourceSummary
	cluster *kube.Cluster
	client  *release.Client
}

func (u *uninstallation) run(ctx context.Context) error {
	if err := u.look(ctx); err != nil {
		return err
	}
	if u.given.print != "" {
		return u.printRest(ctx)
	}
	if err := u.open(ctx); err != nil {
		return err
	}
	defer u.cluster.Close()
	if err := u.show(ctx); err != nil || u.given.dryRun {
		return err
	}
	if err := prompt.New(u.command).Confirm("Uninstall the runtime "+printer.Printable(u.name)+"?", u.given.yes); err != nil {
		return err
	}
	if err := u.leave(ctx); err != nil {
		return err
	}
	// Before the agent ends: an Application that it still acts on would bring back what
	// Helm deletes.
	if err := u.deleteApplications(ctx); err != nil {
		return err
	}
	removed, err := u.client.Remove(ctx, u.given.timeout)
	problems := []error{err, u.deleteApplications(ctx), u.forget(ctx)}
	left, err := u.client.Leftovers(ctx, removed.Definitions)
	problems = append(problems, err, u.report(append(left, u.elsewhere(ctx)...)))
	if err := errors.Join(problems...); err != nil {
		return err
	}
	printer.Note(u.command, "The runtime %s is uninstalled.", u.name)
	return nil
}

// look asks the platform what it knows.
func (u *uninstallation) look(ctx context.Context) error {
	if u.given.print != "" && u.given.print != "helm" {
		return exit.UsageError{Err: fmt.Errorf("--print %q is not helm", u.given.print)}
	}
	known, err := u.platform.FindRuntime(ctx, u.name)
	if err != nil && !u.given.force {
		return fmt.Errorf("%w; --force goes on without the platform", err)
	}
	u.known, u.sources = known, known.GetGitSources()
	if known != nil && !u.command.Flags().Changed("namespace") && known.GetNamespace() != "" {
		u.given.namespace = known.GetNamespace()
	}
	return nil
}

// printRest has the runtime clean up, and prints what is to be done then.
func (u *uninstallation) printRest(ctx context.Context) error {
	if u.known == nil {
		return fmt.Errorf("the platform knows no runtime %s", printer.Printable(u.name))
	}
	if err := prompt.New(u.command).Confirm("Have the runtime "+printer.Printable(u.name)+" clean up and leave?", u.given.yes); err != nil {
		return err
	}
	if _, err := apiclient.Call(ctx, u.platform, u.platform.Runtimes().UninstallRuntime, u.request()); err != nil {
		return err
	}
	printer.Note(u.command, "%s cleans up when it hears of it. Then run in its cluster:", u.name)
	_, err := fmt.Fprintf(u.command.OutOrStdout(), "helm uninstall %s --namespace %s\n", shellWord(u.given.release), shellWord(u.given.namespace))
	return err
}

func (u *uninstallation) request() *platformv1.UninstallRuntimeRequest {
	return &platformv1.UninstallRuntimeRequest{Name: u.name, CleanSharedRepository: u.given.cleanRepository}
}

// open connects to the cluster, and refuses a release of another runtime.
func (u *uninstallation) open(ctx context.Context) (err error) {
	if u.cluster, err = kube.ConnectUser(u.given.local, kube.Version(buildinfo.Read().Version)); err != nil {
		return exit.UsageError{Err: fmt.Errorf("%w; --print helm prints what somebody with access to the cluster has to run", err)}
	}
	defer func() {
		if err != nil {
			u.cluster.Close()
		}
	}()
	place := release.Place{Release: u.given.release, Namespace: u.given.namespace}
	u.client, err = release.Open(u.cluster, place, func(line string) { printer.Note(u.command, "%s", line) })
	if err != nil {
		return err
	}
	current, err := u.client.Current(ctx)
	switch {
	case err != nil:
		return err
	case current == nil && u.known == nil:
		return fmt.Errorf("there is no release %s in this cluster, and no platform knows the runtime %s: choose the cluster with --context, or name the release with --release and --namespace", place, printer.Printable(u.name))
	case current == nil && !u.given.force:
		return fmt.Errorf("there is no release %s in this cluster: choose the cluster with --context, or the release with --release and --namespace; --force goes on, and has the platform forget the runtime", place)
	case current == nil:
		return nil
	}
	if is := values.New(values.Runtime(), current.Values).Text(values.KeyRuntimeName); is != u.name {
		return exit.UsageError{Err: fmt.Errorf("the release %s is the runtime %s, and not %s: choose the cluster and the namespace of %s", place, printer.Printable(is), printer.Printable(u.name), printer.Printable(u.name))}
	}
	return nil
}

// show prints what will be deleted.
func (u *uninstallation) show(ctx context.Context) error {
	objects, err := u.client.Objects(ctx)
	if err != nil {
		return err
	}
	w := u.command.ErrOrStderr()
	rows, flush := printer.NewTable(w)
	for _, id := range objects {
		scope := ""
		if id.Namespace == "" {
			scope = "(of the cluster)"
		}
		rows.Row("  delete", id.String(), scope)
	}
	if err := flush(); err != nil {
		return err
	}
	switch {
	case u.known == nil:
		printer.Note(u.command, "The platform does not know the runtime: nothing is done there.")
	case u.known.GetOnline():
		printer.Note(u.command, "The runtime cleans up first, and takes leave of the platform.")
	default:
		printer.Note(u.command, "The runtime is offline since %s, and cannot clean up.", printer.Timestamp(u.known.GetLastHeartbeatAt()))
	}
	return nil
}

// leave has the runtime clean up, and waits until the platform does not know it any
// more.
func (u *uninstallation) leave(ctx context.Context) error {
	if u.known == nil {
		return nil
	}
	if !u.known.GetOnline() {
		if !u.given.force {
			return errors.New("the runtime is offline and cannot clean up: bring it back, or say --force, and the platform forgets it and its files in the Shared Configuration Repository stay")
		}
		return nil
	}
	if _, err := apiclient.Call(ctx, u.platform, u.platform.Runtimes().UninstallRuntime, u.request()); err != nil {
		return err
	}
	printer.Note(u.command, "waits until the runtime %s has cleaned up and left", u.name)
	waiting, cancel := context.WithTimeout(ctx, u.given.timeout)
	defer cancel()
	gone := u.until(waiting, func(ctx context.Context) bool {
		found, err := u.platform.FindRuntime(ctx, u.name)
		return err == nil && found == nil
	})
	switch {
	case gone:
		u.known = nil
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case u.given.force:
		printer.Note(u.command, "It has not left within %s. Going on, because of --force.", u.given.timeout.String())
		return nil
	}
	return fmt.Errorf("the runtime has not cleaned up within %s: slipway runtime logs %s says why; --force goes on without", u.given.timeout, printer.Printable(u.name))
}

// until asks until something holds, or the time is over.
func (u *uninstallation) until(ctx context.Context, holds func(context.Context) bool) bool {
	ticks := time.NewTicker(askEvery)
	defer ticks.Stop()
	for {
		if holds(ctx) {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-ticks.C:
		}
	}
}

// deleteApplications deletes the Applications that the runtime made for itself, and
// the Git Sources if they were asked for. Nobody acts on them any more, so what they
// delivered stays.
func (u *uninstallation) deleteApplications(ctx context.Context) error {
	client := u.cluster.Dynamic.Resource(v1alpha1.ApplicationResource()).Namespace(u.given.namespace)
	found, err := client.List(ctx, metav1.ListOptions{LabelSelector: sharedrepo.RuntimeLabel + "=" + u.name})
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list the Applications of the runtime: %w", err)
	}
	var problems []error
	for i := range found.Items {
		one := &found.Items[i]
		labels := one.GetLabels()
		ours := labels[sharedrepo.InternalLabel] == "true" || u.given.gitSources && labels[sharedrepo.EntityLabel] == sharedrepo.EntityGitSource
		if !ours || len(one.GetFinalizers()) > 0 {
			continue // it is reported
		}
		if err := client.Delete(ctx, one.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			problems = append(problems, fmt.Errorf("delete the Application %s/%s: %w", u.given.namespace, one.GetName(), err))
		}
	}
	return errors.Join(problems...)
}

// forget has the platform forget a runtime that could not take leave.
func (u *uninstallation) forget(ctx context.Context) error {
	if u.known == nil {
		return nil
	}
	_, err := apiclient.Call(ctx, u.platform, u.platform.Runtimes().DeleteRuntime, &platformv1.DeleteRuntimeRequest{Name: u.name})
	if err == nil {
		u.known = nil
	}
	return nil // it is reported
}

// elsewhere is what is left outside of the cluster.
func (u *uninstallation) elsewhere(ctx context.Context) []release.Leftover {
	var all []release.Leftover
	known, _ := u.platform.FindRuntime(ctx, u.name) // what cannot be asked was told before
	if known != nil {
		all = append(all, release.Leftover{Kind: "Runtime", Name: u.name, Why: "the platform takes it for online for a while", Command: "slipway runtime delete " + u.name})
	}
	for _, source := range u.sources {
		all = append(all, release.Leftover{
			Kind: "Webhook", Name: source.GetRepoUrl(), Why: "the Git host may still send events to the runtime",
			Command: fmt.Sprintf("delete it in the settings of the repository: its address ends in /webhooks/%s/%s", u.name, source.GetName()),
		})
	}
	return all
}

// report prints what is left.
func (u *uninstallation) report(left []release.Leftover) error {
	w := u.command.OutOrStdout()
	if u.given.output.Form != printer.FormTable {
		return u.given.output.Encode(w, map[string]any{"leftovers": left})
	}
	return printLeftovers(w, left)
}

func printLeftovers(w io.Writer, left []release.Leftover) error {
	if len(left) == 0 {
		_, err := fmt.Fprintln(w, "Nothing is left.")
		return err
	}
	_, _ = fmt.Fprintf(w, "%d things are left:\n", len(left))
	for _, one := range left {
		name := one.Name
		if one.Namespace != "" {
			name = one.Namespace + "/" + name
		}
		_, err := fmt.Fprintf(w, "  %s %s: %s\n    %s\n", printer.Printable(one.Kind), printer.Printable(name), printer.Printable(one.Why), printer.Printable(one.Command))
		if err != nil {
			return err
		}
	}
	return nil
}
