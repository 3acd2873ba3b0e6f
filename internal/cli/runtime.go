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
	command.AddCommand(runtimeMeshCommand())
	return command
}
