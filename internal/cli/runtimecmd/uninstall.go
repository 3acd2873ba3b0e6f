package runtimecmd

import (
	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/cli/kubeflags"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/install/lifecycle"
	"slipway.dev/slipway/internal/install/release"
	"slipway.dev/slipway/internal/kube"
)

// runtimeUninstallCommand uninstalls a runtime (R113). It only parses flags;
// lifecycle.Uninstall does the work and lists the leftovers. A platform is
// optional: without one only the Helm release is removed.
func runtimeUninstallCommand(choice *apiclient.Choice) *cobra.Command {
	given, local := &lifecycle.UninstallOptions{}, kube.UserChoice{}
	command := &cobra.Command{
		Use: "uninstall NAME", Short: "Uninstall a runtime, and list the remaining objects",
		Long: `Uninstalls a runtime: it requests that the runtime clean up and deregister from the
platform, waits for that, removes the Helm release, waits until its objects are gone,
and lists the remaining objects with the command that removes each:
CustomResourceDefinitions, volumes, Secrets, Applications, the namespace. Delivered
objects stay.

--clean-shared-repository also removes its files in the Shared Configuration
Repository, and --git-sources its Git Sources in the cluster; the objects that they
delivered stay. An offline runtime cannot clean up: --force continues without that, and
deletes its registration at the platform. --print helm lets the runtime clean up, and
prints the command that removes it from its cluster.`,
		Example: `  slipway runtime uninstall prod
  slipway runtime uninstall prod --clean-shared-repository --git-sources --yes
  slipway runtime uninstall lost --force`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: choice.CompleteRuntimeArg,
	}
	flags := command.Flags()
	kubeflags.Add(command.Flags(), &local)
	flags.StringVarP(&given.Namespace, "namespace", "n", release.DefaultNamespace, "namespace of the runtime (default as registered at the platform)")
	flags.StringVar(&given.Release, "release", release.DefaultName, "name of the Helm release")
	flags.BoolVar(&given.CleanRepository, "clean-shared-repository", false, "also remove its files in the Shared Configuration Repository")
	flags.BoolVar(&given.GitSources, "git-sources", false, "also delete its Git Sources in the cluster; objects that they delivered stay")
	flags.BoolVar(&given.Force, "force", false, "continue when the runtime or the platform does not respond")
	flags.BoolVarP(&given.Yes, "yes", "y", false, "do not ask for confirmation")
	flags.BoolVar(&given.DryRun, "dry-run", false, "show the objects to delete without changing anything")
	flags.StringVar(&given.Print, "print", "", "clean up, and print the command that removes the release: helm")
	flags.DurationVar(&given.Timeout, "timeout", lifecycle.DefaultUninstallTimeout, "timeout of the clean-up, and of the deletion")
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML)
	command.RunE = func(command *cobra.Command, args []string) error {
		// A namespace from the flag wins over the one of the platform's record.
		given.NamespaceGiven = command.Flags().Changed("namespace")
		// lifecycle connects only when it needs the cluster.
		given.Connect = func() (*kube.Cluster, error) { return kubeflags.Connect(local) }
		ui := newUI(command)
		// The result of an uninstall is the list of leftovers.
		ui.leftovers = output
		return withOptionalPlatform(choice, func(platform lifecycle.Platform) error {
			return lifecycle.Uninstall(command.Context(), ui, platform, args[0], given)
		})
	}
	return command
}
