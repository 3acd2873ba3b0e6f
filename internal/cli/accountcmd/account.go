// Package accountcmd has the commands for people: the account with its users
// and Git settings (account), API keys (api-key), the audit log (audit),
// signing in and out (login, logout, whoami), and the contexts of this machine
// (config).
//
// Everything goes through the platform's API; only config works without one. A
// secret that a command creates is printed alone on standard output, so that it
// can be piped, and never appears on standard error.
package accountcmd

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/cli/prompt"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// Account returns the command slipway account. Every user may read; changing
// needs an admin, which the platform checks and this program does not.
func Account() *cobra.Command {
	choice := &apiclient.Choice{}
	command := apiclient.GroupCommand("account", "Manage the account, its users and its Git settings", choice, false)
	command.AddCommand(accountGetCommand(choice), accountUpdateCommand(choice), accountUsersCommand(choice), accountGitCommand(choice), accountCanCommand(choice))
	return command
}

// accountGetCommand returns the command that shows the name and ID of the
// account. The ID is the one that the values of the chart name.
func accountGetCommand(choice *apiclient.Choice) *cobra.Command {
	command := &cobra.Command{Use: "get", Short: "Show the account", Args: cobra.NoArgs}
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML)
	command.RunE = apiclient.WithClient(choice, func(command *cobra.Command, client *apiclient.Client, _ []string) error {
		response, err := apiclient.Call(command.Context(), client, client.Accounts().GetAccount, &platformv1.GetAccountRequest{})
		if err != nil {
			return err
		}
		return showAccount(command, output, response.GetAccount())
	})
	return command
}

// showAccount prints an account in the chosen form. Get and update share it, so
// that both print the same document.
func showAccount(command *cobra.Command, output *printer.Output, account *platformv1.Account) error {
	return printer.Show(command, output, account, func(w io.Writer) error {
		facts, flush := printer.NewTable(w)
		facts.Row("Name:", account.GetName())
		facts.Row("ID:", account.GetId())
		facts.Row("Created:", printer.Timestamp(account.GetCreatedAt()))
		return flush()
	})
}

// accountUpdateCommand returns the command that renames the account. Its ID
// stays, so runtimes and keys are not affected.
func accountUpdateCommand(choice *apiclient.Choice) *cobra.Command {
	var name string
	command := &cobra.Command{Use: "update --name NAME", Short: "Rename the account", Args: cobra.NoArgs}
	command.Flags().StringVar(&name, "name", "", "new name of the account")
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML)
	command.RunE = apiclient.WithClient(choice, func(command *cobra.Command, client *apiclient.Client, _ []string) error {
		if name == "" {
			return exit.UsageError{Err: errors.New("--name is missing")}
		}
		response, err := apiclient.Call(command.Context(), client, client.Accounts().UpdateAccount, &platformv1.UpdateAccountRequest{Name: name})
		if err != nil {
			return err
		}
		return showAccount(command, output, response.GetAccount())
	})
	return command
}

// accountGitCommand returns the commands for the Git provider and the Shared
// Configuration Repository of the account (R56 to R58). The settings hold no
// token: each runtime has its own.
func accountGitCommand(choice *apiclient.Choice) *cobra.Command {
	command := &cobra.Command{
		Use:   "git",
		Short: "Manage the Git provider and the Shared Configuration Repository",
		Long: `The Git provider and the Shared Configuration Repository are the same for all
runtimes of the account, and contain no token. They cannot be changed once a runtime
has reached the repository; reset is for wrong settings, and for an account without
active runtimes.`,
	}
	get := &cobra.Command{Use: "get", Short: "Show the Git settings", Args: cobra.NoArgs}
	getOutput := printer.NewOutput(get, printer.FormJSON, printer.FormYAML)
	get.RunE = apiclient.WithClient(choice, func(command *cobra.Command, client *apiclient.Client, _ []string) error {
		response, err := apiclient.Call(command.Context(), client, client.Git().GetGitSettings, &platformv1.GetGitSettingsRequest{})
		if err != nil {
			return err
		}
		return showGitSettings(command, getOutput, response.GetSettings())
	})
	reset := &cobra.Command{Use: "reset", Short: "Reset the Git settings", Args: cobra.NoArgs}
	var yes bool
	reset.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	reset.RunE = apiclient.WithClient(choice, func(command *cobra.Command, client *apiclient.Client, _ []string) error {
		// The platform refuses the reset while an online runtime uses the
		// settings, so the prompt mostly guards against the wrong account.
		if err := prompt.New(command).Confirm("Forget the Git settings of the account?", yes); err != nil {
			return err
		}
		_, err := apiclient.Call(command.Context(), client, client.Git().ResetGitSettings, &platformv1.ResetGitSettingsRequest{})
		return printer.Done(command, err, "The Git settings are reset.")
	})
	command.AddCommand(get, accountGitSetCommand(choice), reset)
	return command
}

// accountGitSetCommand returns the command that sets the Git settings once. The
// platform freezes them when a runtime has reached the repository, because
// moving it would orphan the files that runtimes keep there.
func accountGitSetCommand(choice *apiclient.Choice) *cobra.Command {
	settings := &platformv1.GitSettings{}
	command := &cobra.Command{
		Use:   "set --shared-repository URL",
		Short: "Set the Git provider and the Shared Configuration Repository",
		Long: `Sets them once for the account. The provider and its API follow from the URL of the
repository: the clouds and many self-hosted servers by their names, others by what the
server responds to the platform, without a token. Give both for a server that the
platform cannot reach. Prints where the tokens are created, and what they need.`,
		Example: `  slipway account git set --shared-repository https://github.com/acme/shared.git
  slipway account git set --shared-repository 'https://git.acme.example/ops/shared.git/team?ref=main' --provider gitlab --api-url https://git.acme.example/api/v4`,
		Args: cobra.NoArgs,
	}
	flags := command.Flags()
	flags.StringVar(&settings.SharedRepository, "shared-repository", "", "Shared Configuration Repository: <repo>.git[/<path>][?ref=<branch>]")
	flags.StringVar(&settings.Provider, "provider", "", "github, gitlab, bitbucket, bitbucket-server, or git for another server (default inferred)")
	flags.StringVar(&settings.ApiUrl, "api-url", "", "API of the provider (default inferred)")
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML)
	command.RunE = apiclient.WithClient(choice, func(command *cobra.Command, client *apiclient.Client, _ []string) error {
		// Only the repository is required: for cloud providers the platform
		// infers the provider and its API from the URL.
		if settings.SharedRepository == "" {
			return exit.UsageError{Err: errors.New("--shared-repository is missing")}
		}
		response, err := apiclient.Call(command.Context(), client, client.Git().SetGitSettings, &platformv1.SetGitSettingsRequest{Settings: settings})
		if err != nil {
			return err
		}
		if err := showGitSettings(command, output, response.GetSettings()); err != nil {
			return err
		}
		help, err := apiclient.Call(command.Context(), client, client.Git().GetTokenHelp, &platformv1.GetTokenHelpRequest{})
		if err != nil {
			return err
		}
		apiclient.NoteTokenHelp(command, "Each runtime needs a token: slipway integration git set-runtime-token", help.GetRuntime())
		apiclient.NoteTokenHelp(command, "Each user who changes Git through Slipway needs one: slipway integration git register", help.GetUser())
		return nil
	})
	return command
}

// showGitSettings prints the settings. Empty settings are a note and not a
// table of dashes, but -o json still prints them, so that scripts always get a
// document.
func showGitSettings(command *cobra.Command, output *printer.Output, settings *platformv1.GitSettings) error {
	if settings.GetSharedRepository() == "" && output.Form == printer.FormTable {
		printer.Note(command, "Nothing is set: slipway account git set --shared-repository URL")
		return nil
	}
	return printer.Show(command, output, settings, func(w io.Writer) error {
		facts, flush := printer.NewTable(w)
		facts.Row("Provider:", printer.OrDash(settings.GetProvider()))
		facts.Row("API:", printer.OrDash(settings.GetApiUrl()))
		facts.Row("Shared repository:", settings.GetSharedRepository())
		// Validated is set by the first runtime that reaches the repository,
		// and freezes the settings.
		validated := "no runtime has reached it yet"
		if settings.GetValidated() {
			validated = "yes: the settings are frozen"
		}
		facts.Row("Validated:", validated)
		return flush()
	})
}

// parseRole parses a role as users write it, also by its former name user. It is
// the inverse of apiclient.RoleName.
func parseRole(word string) (platformv1.Role, error) {
	role, err := permission.ParseRole(word)
	if err != nil {
		return 0, exit.UsageError{Err: fmt.Errorf("--role: %w", err)}
	}
	return platformv1.Role(platformv1.Role_value["ROLE_"+strings.ToUpper(role)]), nil
}
