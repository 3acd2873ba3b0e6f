package runtimecmd

import (
	"errors"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/cli/prompt"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// runtimeConfigurationCommand makes a runtime the configuration runtime (R119).
// An account has one; the platform removes the role from the previous one.
func runtimeConfigurationCommand(choice *apiclient.Choice) *cobra.Command {
	return &cobra.Command{
		Use: "set-configuration NAME", Short: "Make a runtime the configuration runtime of the account",
		Args: cobra.ExactArgs(1), ValidArgsFunction: choice.CompleteRuntimeArg,
		RunE: apiclient.WithClient(choice, func(command *cobra.Command, client *apiclient.Client, args []string) error {
			// The field is optional in the API: an absent one keeps the role.
			yes := true
			_, err := apiclient.Call(command.Context(), client, client.Runtimes().UpdateRuntime, &platformv1.UpdateRuntimeRequest{Name: args[0], ConfigurationRuntime: &yes})
			return printer.Done(command, err, "%s is the configuration runtime.", args[0])
		}),
	}
}

// runtimeRenameCommand is hidden. It exists for users who try it: the platform
// refuses the request with the reason why a name cannot change.
func runtimeRenameCommand(choice *apiclient.Choice) *cobra.Command {
	return &cobra.Command{
		Use: "rename NAME NEW-NAME", Short: "Explain why a runtime cannot be renamed", Args: cobra.ExactArgs(2), Hidden: true,
		RunE: apiclient.WithClient(choice, func(command *cobra.Command, client *apiclient.Client, args []string) error {
			_, err := apiclient.Call(command.Context(), client, client.Runtimes().UpdateRuntime, &platformv1.UpdateRuntimeRequest{Name: args[0], NewName: &args[1]})
			if err != nil {
				return err
			}
			// A platform that accepts the request without an error must not
			// pass for a successful rename.
			return errors.New("the runtime keeps its name")
		}),
	}
}

// runtimeRevokeCommand revokes the credentials of a runtime, after
// confirmation. It is for leaked credentials: the cluster keeps its workloads.
// The runtime continues to reconcile its Applications, but is offline until it
// joins again with a new key.
func runtimeRevokeCommand(choice *apiclient.Choice) *cobra.Command {
	var yes bool
	command := &cobra.Command{
		Use: "revoke NAME", Short: "Revoke the credentials of a runtime and close its tunnels",
		Long: `Revokes the credentials of a runtime and closes its tunnels within seconds. Its cluster
does not change, and the runtime continues to deliver; it can join again with a new
API key.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: choice.CompleteRuntimeArg,
	}
	command.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	command.RunE = apiclient.WithClient(choice, func(command *cobra.Command, client *apiclient.Client, args []string) error {
		if err := prompt.New(command).Confirm("Revoke the credentials of the runtime "+printer.Printable(args[0])+"?", yes); err != nil {
			return err
		}
		_, err := apiclient.Call(command.Context(), client, client.Runtimes().RevokeCredentials, &platformv1.RevokeCredentialsRequest{Name: args[0]})
		return printer.Done(command, err, "The credentials of %s are revoked.", args[0])
	})
	return command
}

// runtimeDeleteCommand deletes the registration of an offline runtime, after
// confirmation. The platform refuses an online one. The cluster is not
// contacted.
func runtimeDeleteCommand(choice *apiclient.Choice) *cobra.Command {
	var yes bool
	command := &cobra.Command{
		Use: "delete NAME", Short: "Delete the registration of an offline runtime",
		Long: "Deletes the registration of an offline runtime at the platform. Nothing in its cluster is changed: use slipway runtime uninstall for that.",
		Args: cobra.ExactArgs(1), ValidArgsFunction: choice.CompleteRuntimeArg,
	}
	command.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	command.RunE = apiclient.WithClient(choice, func(command *cobra.Command, client *apiclient.Client, args []string) error {
		if err := prompt.New(command).Confirm("Forget the runtime "+printer.Printable(args[0])+"?", yes); err != nil {
			return err
		}
		_, err := apiclient.Call(command.Context(), client, client.Runtimes().DeleteRuntime, &platformv1.DeleteRuntimeRequest{Name: args[0]})
		return printer.Done(command, err, "%s is forgotten.", args[0])
	})
	return command
}
