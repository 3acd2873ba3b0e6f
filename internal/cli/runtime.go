package cli

import "github.com/spf13/cobra"

// runtimeCommand is `slipway runtime`: the runtimes of an account.
func runtimeCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "runtime",
		Short: "Look after runtimes",
		Long:  `Looks after runtimes: the agents that deliver to clusters, and how they are reached.`,
		Args:  cobra.NoArgs,
		RunE:  func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	choice := &platformChoice{}
	fleet := []*cobra.Command{
		runtimeListCommand(choice), runtimeGetCommand(choice), runtimeCheckCommand(choice),
		runtimeInstallCommand(choice), runtimeUpgradeCommand(choice), runtimeConfigureCommand(choice),
		runtimeConfigurationCommand(choice), runtimeRenameCommand(choice), runtimeLogsCommand(choice),
		runtimeRevokeCommand(choice), runtimeUninstallCommand(choice), runtimeDeleteCommand(choice),
		runtimeRestoreCommand(choice),
	}
	for _, each := range fleet {
		choice.add(each.Flags())
		_ = each.RegisterFlagCompletionFunc("platform-context", completeContexts) // the flag is there
	}
	command.AddCommand(fleet...)
	command.AddCommand(runtimeMeshCommand())
	return command
}
