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
		Use: "uninstall NAME", Short: "Uninstall a runtime, and list what is left",
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
	kubeflags.Add(command.Flags(), &local)
	flags.StringVarP(&given.Namespace, "namespace", "n", release.DefaultNamespace, "namespace of the runtime (default what the platform knows)")
	flags.StringVar(&given.Release, "release", release.DefaultName, "name of the Helm release")
	flags.BoolVar(&given.CleanRepository, "clean-shared-repository", false, "also remove what it has in the Shared Configuration Repository")
	flags.BoolVar(&given.GitSources, "git-sources", false, "also delete its Git Sources in the cluster; what they delivered stays")
	flags.BoolVar(&given.Force, "force", false, "go on when the runtime or the platform does not respond")
	flags.BoolVarP(&given.Yes, "yes", "y", false, "do not ask for confirmation")
	flags.BoolVar(&given.DryRun, "dry-run", false, "show what would be deleted, and change nothing")
	flags.StringVar(&given.Print, "print", "", "have it clean up, and print what removes it then: helm")
	flags.DurationVar(&given.Timeout, "timeout", lifecycle.DefaultUninstallTimeout, "how long cleaning up and deleting may take, each")
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
