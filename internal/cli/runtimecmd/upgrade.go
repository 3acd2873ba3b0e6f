package runtimecmd

import (
	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/install/lifecycle"
)

// runtimeUpgradeCommand upgrades a runtime or changes its values (R110, R111).
// It only parses flags; lifecycle.Upgrade does the work. Installation and
// upgrade are separate commands, unlike helm upgrade --install, so that a
// misspelled name does not install a second runtime.
func runtimeUpgradeCommand(choice *apiclient.Choice) *cobra.Command {
	given := &lifecycle.UpgradeOptions{}
	shared := &releaseFlags{}
	command := &cobra.Command{
		Use:   "upgrade NAME",
		Short: "Upgrade a runtime, or change its values",
		Long: `Upgrades a runtime with Helm's library: it checks the values, runs the checks of
slipway preflight, shows the changes as a diff without the values of Secrets,
asks for confirmation, upgrades, shows the progress, and returns when the runtime is
online with the new version. A release that is not healthy within --timeout is rolled
back to the previous revision, with the reason.

The values of the installed release are kept and override the defaults of the new
chart; those of files and --set override them. --reset-values discards the previous
values. A chart that is older than the installed one is refused without --force.

A runtime that is an Application of itself is upgraded in the Shared Configuration
Repository: the command prints the file to change, and changes nothing. --print helm
prints the equivalent Helm command.

--reapply writes all objects as the chart has them even if nothing changes, and takes
over fields that other tools have changed: it repairs a release.`,
		Example: `  slipway runtime upgrade prod
  slipway runtime upgrade prod --set edge.replicas=3 --dry-run
  slipway runtime upgrade prod --chart oci://charts.example.com/gitops-runtime --version 0.2.0 --yes`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: choice.CompleteRuntimeArg,
	}
	shared.add(command, &given.Options)
	flags := command.Flags()
	flags.BoolVar(&given.ResetValues, "reset-values", false, "discard the values of the installed release")
	flags.BoolVar(&given.Force, "force", false, "also accept an older version, and also upgrade a runtime that is an Application of itself")
	flags.BoolVar(&given.Reapply, "reapply", false, "write all objects again, also those that other tools have changed")
	flags.StringVar(&given.Print, "print", "", "print the upgrade command for helm instead of upgrading")
	command.RunE = func(command *cobra.Command, args []string) error {
		// The namespace defaults to that of the registered runtime.
		if err := shared.finish(command, &given.Options); err != nil {
			return err
		}
		return withOptionalPlatform(choice, func(platform lifecycle.Platform) error {
			return lifecycle.Upgrade(command.Context(), newUI(command), platform, args[0], given)
		})
	}
	return command
}
