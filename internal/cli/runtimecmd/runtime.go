// Package runtimecmd is the command slipway runtime: it installs, upgrades,
// restores and uninstalls runtimes with internal/install/lifecycle, and lists,
// inspects and configures those that have joined a platform.
package runtimecmd

import (
	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/apiclient"
)

// Command returns the command slipway runtime. The flags for the platform are
// on each subcommand and not on the group, because mesh has a --runtime flag of
// its own.
func Command() *cobra.Command {
	command := &cobra.Command{
		Use:   "runtime",
		Short: "Manage runtimes",
		Long:  `Manages runtimes: the agents that deliver to clusters, and how the platform reaches them.`,
	}
	// All commands share one choice: only one of them runs per process.
	choice := &apiclient.Choice{}
	fleet := []*cobra.Command{
		runtimeListCommand(choice), runtimeGetCommand(choice), runtimeCheckCommand(choice),
		runtimeInstallCommand(choice), runtimeUpgradeCommand(choice), runtimeConfigureCommand(choice),
		runtimeConfigurationCommand(choice), runtimeRenameCommand(choice), runtimeLogsCommand(choice),
		runtimeRevokeCommand(choice), runtimeUninstallCommand(choice), runtimeDeleteCommand(choice),
		runtimeRestoreCommand(choice),
	}
	for _, each := range fleet {
		choice.AddFlags(each.Flags())
		_ = each.RegisterFlagCompletionFunc("platform-context", apiclient.CompleteContexts) // the flag is there
	}
	command.AddCommand(fleet...)
	mesh := runtimeMeshCommand(choice)
	choice.AddFlags(mesh.PersistentFlags())
	command.AddCommand(mesh)
	return command
}
