package installcmd

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/kubeflags"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/cli/prompt"
	"slipway.dev/slipway/internal/install/crds"
	"slipway.dev/slipway/internal/install/release"
	"slipway.dev/slipway/internal/kube"
)

// crdsTimeout bounds reading the cluster, and again writing to it. The two have
// a timeout each, because the user may take long to confirm in between.
const crdsTimeout = 2 * time.Minute

// crdsFlags are the flags of the crds commands. They select the cluster, the
// Helm release and the definitions.
type crdsFlags struct {
	choice  kube.UserChoice
	release crds.Place
	// only has the names of families; empty means those of the chart.
	only []string
	// force takes definitions of other owners, dryRun writes nothing, and
	// accept skips the confirmation.
	force, dryRun, accept bool
	output                *printer.Output
}

// CRDs returns the command slipway crds (R22 to R26). No subcommand deletes a
// definition.
func CRDs() *cobra.Command {
	command := &cobra.Command{
		Use:   "crds",
		Short: "List, adopt or release CustomResourceDefinitions",
		Long: `Helm creates the missing definitions of a chart, and never updates or deletes them
afterwards. Definitions that existed before, such as those of Argo CD, belong to their
creator. Adopting them labels them as part of the runtime's release, so that they are
upgraded with the runtime; releasing restores their previous labels and annotations.
Definitions themselves are never deleted: that would delete every object of their kind.`,
	}
	command.AddCommand(crdsPlanCommand(), crdsAdoptCommand(), crdsReleaseCommand(), crdsUpgradeCommand())
	return command
}

// add adds the flags to a command. With writes it adds --dry-run and --yes,
// which only the commands with a confirmation have.
func (f *crdsFlags) add(command *cobra.Command, writes bool) {
	flags := command.Flags()
	kubeflags.Add(command.Flags(), &f.choice)
	flags.StringVar(&f.release.Name, "release", release.DefaultName, "name of the Helm release of the runtime")
	flags.StringVarP(&f.release.Namespace, "namespace", "n", release.DefaultNamespace, "namespace of the Helm release")
	flags.StringSliceVar(&f.only, "only", nil, "families of definitions: argocd, slipway, promotions, gateway, rollouts, workflows, events (default argocd,slipway,promotions: those of the chart)")
	if writes {
		flags.BoolVar(&f.dryRun, "dry-run", false, "show all writes without making them")
		flags.BoolVar(&f.accept, "yes", false, "do not ask for confirmation")
	}
	f.output = printer.NewOutput(command, printer.FormJSON, printer.FormYAML)
}

// run returns the RunE of a command that works on the cluster of the flags, with
// crdsTimeout for what it reads.
func (f *crdsFlags) run(work func(context.Context, *cobra.Command, crds.Options) error) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, _ []string) error {
		// Flags are checked before the connection, so that a typo needs no
		// reachable cluster.
		only, err := crds.ParseFamilies(f.only)
		if err != nil {
			return exit.UsageError{Err: fmt.Errorf("--only: %w", err)}
		}
		cluster, err := kubeflags.Connect(f.choice)
		if err != nil {
			return err
		}
		defer cluster.Close()
		ctx, cancel := context.WithTimeout(command.Context(), crdsTimeout)
		defer cancel()
		return work(ctx, command, crds.Options{Cluster: cluster, Release: f.release, Only: only, Force: f.force})
	}
}

// crdsPlanCommand shows the owner of each definition and the effect of an
// adoption. It only reads.
func crdsPlanCommand() *cobra.Command {
	given := &crdsFlags{}
	command := &cobra.Command{
		Use:   "plan",
		Short: "Show who owns the definitions, and what adopting would change",
		Example: `  slipway crds plan
  slipway crds plan --only argocd,rollouts --release slipway-runtime --namespace slipway -o json`,
		Args: cobra.NoArgs,
	}
	given.add(command, false)
	command.RunE = given.run(func(ctx context.Context, command *cobra.Command, options crds.Options) error {
		entries, err := crds.Plan(ctx, options)
		if err != nil {
			return err
		}
		return given.show(command.OutOrStdout(), entries)
	})
	return command
}

// crdsAdoptCommand adopts definitions into the release (R23): it sets the
// labels and annotations by which Helm recognizes its own objects. The previous
// values are recorded in an annotation, which release uses to undo it.
func crdsAdoptCommand() *cobra.Command {
	given := &crdsFlags{}
	command := &cobra.Command{
		Use:   "adopt",
		Short: "Adopt definitions into the runtime's Helm release",
		Long: `Sets the label app.kubernetes.io/managed-by and the annotations
meta.helm.sh/release-name and meta.helm.sh/release-namespace, after showing the
changes, and keeps the previous values in the annotation slipway.dev/adopted-from.
Definitions that another existing Helm release, Argo CD or another tool manages are
refused without --force. slipway crds release reverts it.`,
		Example: `  slipway crds adopt --release slipway-runtime --namespace slipway
  slipway crds adopt --only rollouts --dry-run`,
		Args: cobra.NoArgs,
	}
	given.add(command, true)
	command.Flags().BoolVar(&given.force, "force", false, "adopt definitions that another tool manages")
	command.RunE = given.run(func(ctx context.Context, command *cobra.Command, options crds.Options) error {
		return given.change(ctx, command, options, crds.Plan)
	})
	return command
}

// crdsReleaseCommand undoes an adoption from the record in the annotation
// slipway.dev/adopted-from. Only marks change; the definition and its objects
// stay.
func crdsReleaseCommand() *cobra.Command {
	given := &crdsFlags{}
	command := &cobra.Command{
		Use:   "release",
		Short: "Release adopted definitions to their previous owner",
		Long: `Reverts slipway crds adopt with the values that it kept. The labels and annotations of
a definition that was adopted manually are removed. A definition whose labels changed
after the adoption is refused without --force.`,
		Example: `  slipway crds release
  slipway crds release --only rollouts --dry-run`,
		Args: cobra.NoArgs,
	}
	given.add(command, true)
	command.Flags().BoolVar(&given.force, "force", false, "also release definitions that changed since the adoption, or that were adopted for another release")
	command.RunE = given.run(func(ctx context.Context, command *cobra.Command, options crds.Options) error {
		return given.change(ctx, command, options, crds.PlanRelease)
	})
	return command
}

// crdsUpgradeCommand applies the definitions of this version (R24). Helm
// installs the crds folder of a chart once and never upgrades it. There is no
// confirmation: definitions of other owners stay unchanged.
func crdsUpgradeCommand() *cobra.Command {
	given, class := &crdsFlags{}, ""
	command := &cobra.Command{
		Use:   "upgrade",
		Short: "Upgrade the definitions of the release to this version",
		Long: `Applies the definitions of the chart that are missing or belong to the release, which a Helm upgrade does not do. Definitions of other owners are not changed.
With --only gateway it applies those of Gateway API, which are never replaced by an older version. --gateway-class creates a GatewayClass
that is missing, too, for the release: a chart cannot have an object of a kind that the cluster does not define yet.
With --only rollouts it applies those of Argo Rollouts, for an agent with the option rollouts.enabled.`,
		Example: `  slipway crds upgrade --release slipway-runtime --namespace slipway
  slipway crds upgrade --only gateway
  slipway crds upgrade --only rollouts`,
		Args: cobra.NoArgs,
	}
	given.add(command, false)
	command.Flags().StringVar(&class, "gateway-class", "", "GatewayClass of Slipway to create for the release if it is missing")
	command.RunE = given.run(func(ctx context.Context, command *cobra.Command, options crds.Options) error {
		// The list is never nil, so that JSON has an empty list and not null.
		changed := []string{}
		err := crds.Upgrade(ctx, options, func(name string) {
			changed = append(changed, name)
			printer.Note(command, "%s is that of this version.", name)
		})
		if err == nil && class != "" {
			err = crds.EnsureGatewayClass(ctx, options, class)
		}
		// On an error the notes above have already named what was upgraded;
		// JSON output is for complete runs only.
		if err == nil && given.output.Form != printer.FormTable {
			return given.output.Encode(command.OutOrStdout(), map[string]any{"upgraded": changed})
		}
		if err == nil && len(changed) == 0 {
			printer.Note(command, "There was nothing to upgrade.")
		}
		return err
	})
	return command
}

// crdsPlanner plans what adopt or release writes; it only reads.
type crdsPlanner func(context.Context, crds.Options) ([]crds.Entry, error)

// change shows the planned writes, prompts for confirmation, and makes them.
// One definition of another owner refuses the whole run, because a release that
// owns only some of its definitions upgrades only those.
func (f *crdsFlags) change(ctx context.Context, command *cobra.Command, options crds.Options, plan crdsPlanner) error {
	entries, err := plan(ctx, options)
	if err != nil {
		return err
	}
	if err := f.show(command.OutOrStdout(), entries); err != nil {
		return err
	}
	// The patches are shown in full, because they change objects that other
	// tools may manage.
	pending := 0
	for _, entry := range entries {
		// Entries without a patch need no write: they are up to date, missing
		// or refused.
		if entry.Patch == nil {
			continue
		}
		pending++
		if f.output.Form == printer.FormTable {
			_, _ = fmt.Fprintf(command.OutOrStdout(), "will merge into %s: %s\n", printer.Printable(entry.Name), printer.Printable(string(entry.Patch)))
		}
	}
	// A dry run reports refusals as the real run would, with the same exit
	// code.
	if f.dryRun {
		printer.Note(command, "Nothing was changed: %s would be.", finding.Count(pending, "definition", "definitions"))
		return f.refused(entries)
	}
	// Refusals come before the prompt: the user must not confirm a run that
	// cannot succeed.
	if err := f.refused(entries); err != nil {
		return err
	}
	if pending == 0 {
		printer.Note(command, "There is nothing to do.")
		return nil
	}
	if err := prompt.New(command).Confirm("Change "+finding.Count(pending, "definition", "definitions")+"?", f.accept); err != nil {
		return err
	}
	// A new timeout: the user may have taken long to confirm.
	writing, stop := context.WithTimeout(command.Context(), crdsTimeout)
	defer stop()
	return crds.Apply(writing, options, entries, func(entry crds.Entry) { printer.Note(command, "%s: done.", entry.Name) })
}

// refused returns an error if any definition belongs to another owner. The
// table above the error lists the reasons.
func (f *crdsFlags) refused(entries []crds.Entry) error {
	var names []string
	for _, entry := range entries {
		if entry.Action == crds.Refuse {
			names = append(names, entry.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return exit.Status{Code: exit.Failure, Err: fmt.Errorf("%d of the definitions belong to another owner: nothing was changed; see above, or choose with --only, or take them with --force", len(names))}
}

// show prints the definitions with their owner and the planned action. JSON and
// YAML include the release that the plan is for.
func (f *crdsFlags) show(w io.Writer, entries []crds.Entry) error {
	if f.output.Form != printer.FormTable {
		return f.output.Encode(w, map[string]any{"release": f.release, "definitions": entries})
	}
	return printer.List(w, []string{"DEFINITION", "FAMILY", "OWNER", "CHART", "ACTION", "WHY"}, entries, func(entry crds.Entry) []string {
		owner, chart := "-", "not in it"
		if entry.Found {
			owner = entry.Owner.String()
		}
		// The column compares the definition in the cluster with that of the
		// chart.
		switch {
		case !entry.Brought:
		case !entry.Found:
			chart = "makes it"
		case entry.Differs:
			chart = "has another"
		default:
			chart = "has the same"
		}
		return []string{entry.Name, string(entry.Family), owner, chart, string(entry.Action), entry.Why}
	})
}
