package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/wire/platformv1"
)

// runtimeConfigurationCommand sets the flag of the configuration runtime (R119).
func runtimeConfigurationCommand(choice *platformChoice) *cobra.Command {
	return &cobra.Command{
		Use: "set-configuration NAME", Short: "Make a runtime the configuration runtime of the account",
		Args: cobra.ExactArgs(1), ValidArgsFunction: choice.completeRuntimeArg,
		RunE: withPlatform(choice, nil, func(command *cobra.Command, client *platformClient, args []string) error {
			yes := true
			_, err := ask(command.Context(), client, client.runtimes().UpdateRuntime, &platformv1.UpdateRuntimeRequest{Name: args[0], ConfigurationRuntime: &yes})
			if err == nil {
				note(command, "%s is the configuration runtime.", args[0])
			}
			return err
		}),
	}
}

// runtimeRenameCommand is there to say why a name stays.
func runtimeRenameCommand(choice *platformChoice) *cobra.Command {
	return &cobra.Command{
		Use: "rename NAME NEW-NAME", Short: "Say why a runtime keeps its name", Args: cobra.ExactArgs(2), Hidden: true,
		RunE: withPlatform(choice, nil, func(command *cobra.Command, client *platformClient, args []string) error {
			_, err := ask(command.Context(), client, client.runtimes().UpdateRuntime, &platformv1.UpdateRuntimeRequest{Name: args[0], NewName: &args[1]})
			if err != nil {
				return err
			}
			return errors.New("the runtime keeps its name")
		}),
	}
}

func runtimeRevokeCommand(choice *platformChoice) *cobra.Command {
	var yes bool
	command := &cobra.Command{
		Use: "revoke NAME", Short: "End everything that a runtime holds: its tokens and its tunnels",
		Long: `Ends the credentials of a runtime and closes its tunnels within seconds. What is in
its cluster stays, and the runtime goes on delivering; it joins again with a new API
key.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: choice.completeRuntimeArg,
	}
	command.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	command.RunE = withPlatform(choice, nil, func(command *cobra.Command, client *platformClient, args []string) error {
		if err := newPrompter(command).confirm("Revoke the credentials of the runtime "+printable(args[0])+"?", yes); err != nil {
			return err
		}
		_, err := ask(command.Context(), client, client.runtimes().RevokeCredentials, &platformv1.RevokeCredentialsRequest{Name: args[0]})
		if err == nil {
			note(command, "The credentials of %s are revoked.", args[0])
		}
		return err
	})
	return command
}

func runtimeDeleteCommand(choice *platformChoice) *cobra.Command {
	var yes bool
	command := &cobra.Command{
		Use: "delete NAME", Short: "Have the platform forget an offline runtime",
		Long: "Has the platform forget a runtime that is offline. Nothing is done in its cluster: slipway runtime uninstall is for that.",
		Args: cobra.ExactArgs(1), ValidArgsFunction: choice.completeRuntimeArg,
	}
	command.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	command.RunE = withPlatform(choice, nil, func(command *cobra.Command, client *platformClient, args []string) error {
		if err := newPrompter(command).confirm("Forget the runtime "+printable(args[0])+"?", yes); err != nil {
			return err
		}
		_, err := ask(command.Context(), client, client.runtimes().DeleteRuntime, &platformv1.DeleteRuntimeRequest{Name: args[0]})
		if err == nil {
			note(command, "%s is forgotten.", args[0])
		}
		return err
	})
	return command
}
