package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/wire/platformv1"
)

// accountCommand is `slipway account`.
func accountCommand() *cobra.Command {
	choice := &platformChoice{}
	command := platformGroup("account", "Look after the account, its users and its Git settings", choice, false)
	command.AddCommand(accountGetCommand(choice), accountUpdateCommand(choice), accountUsersCommand(choice), accountGitCommand(choice))
	return command
}

func accountGetCommand(choice *platformChoice) *cobra.Command {
	command := &cobra.Command{Use: "get", Short: "Show the account", Args: cobra.NoArgs}
	output := newOutputFlag(command, outputJSON, outputYAML)
	command.RunE = withPlatform(choice, output, func(command *cobra.Command, client *platformClient, _ []string) error {
		answer, err := ask(command.Context(), client, client.accounts().GetAccount, &platformv1.GetAccountRequest{})
		if err != nil {
			return err
		}
		return showAccount(command, output, answer.GetAccount())
	})
	return command
}

func showAccount(command *cobra.Command, output *outputFlag, account *platformv1.Account) error {
	return showMessage(command, output, account, func(w io.Writer) error {
		facts, flush := newTable(w)
		facts.row("Name:", account.GetName())
		facts.row("ID:", account.GetId())
		facts.row("Created:", shownStamp(account.GetCreatedAt()))
		return flush()
	})
}

func accountUpdateCommand(choice *platformChoice) *cobra.Command {
	var name string
	command := &cobra.Command{Use: "update --name NAME", Short: "Give the account another name", Args: cobra.NoArgs}
	command.Flags().StringVar(&name, "name", "", "new name of the account")
	output := newOutputFlag(command, outputJSON, outputYAML)
	command.RunE = withPlatform(choice, output, func(command *cobra.Command, client *platformClient, _ []string) error {
		if name == "" {
			return usageError{errors.New("--name is missing")}
		}
		answer, err := ask(command.Context(), client, client.accounts().UpdateAccount, &platformv1.UpdateAccountRequest{Name: name})
		if err != nil {
			return err
		}
		return showAccount(command, output, answer.GetAccount())
	})
	return command
}

// withPlatform is what all commands do that ask a platform.
func withPlatform(choice *platformChoice, output *outputFlag, run func(*cobra.Command, *platformClient, []string) error) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, args []string) error {
		if output != nil {
			if err := output.check(); err != nil {
				return err
			}
		}
		client, err := choice.open()
		if err != nil {
			return err
		}
		defer client.close()
		return run(command, client, args)
	}
}

// withRuntime is withPlatform for a runtime of it.
func withRuntime(choice *platformChoice, output *outputFlag, run func(*cobra.Command, *platformClient, string, []string) error) func(*cobra.Command, []string) error {
	return withPlatform(choice, output, func(command *cobra.Command, client *platformClient, args []string) error {
		name, err := client.chosenRuntime(command.Context())
		if err != nil {
			return err
		}
		return run(command, client, name, args)
	})
}

// accountGitCommand is the Git provider and the Shared Configuration Repository.
func accountGitCommand(choice *platformChoice) *cobra.Command {
	command := &cobra.Command{
		Use:   "git",
		Short: "Look after the Git provider and the Shared Configuration Repository",
		Long: `The Git provider and the Shared Configuration Repository are the same for all
runtimes of the account, and hold no token. Once a runtime has reached the
repository they are frozen; reset is for wrong settings, and for an account without
active runtimes.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	get := &cobra.Command{Use: "get", Short: "Show the Git settings", Args: cobra.NoArgs}
	getOutput := newOutputFlag(get, outputJSON, outputYAML)
	get.RunE = withPlatform(choice, getOutput, func(command *cobra.Command, client *platformClient, _ []string) error {
		answer, err := ask(command.Context(), client, client.git().GetGitSettings, &platformv1.GetGitSettingsRequest{})
		if err != nil {
			return err
		}
		return showGitSettings(command, getOutput, answer.GetSettings())
	})
	reset := &cobra.Command{Use: "reset", Short: "Forget the Git settings", Args: cobra.NoArgs}
	var yes bool
	reset.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	reset.RunE = withPlatform(choice, nil, func(command *cobra.Command, client *platformClient, _ []string) error {
		if err := newPrompter(command).confirm("Forget the Git settings of the account?", yes); err != nil {
			return err
		}
		_, err := ask(command.Context(), client, client.git().ResetGitSettings, &platformv1.ResetGitSettingsRequest{})
		if err == nil {
			note(command, "The Git settings are reset.")
		}
		return err
	})
	command.AddCommand(get, accountGitSetCommand(choice), reset)
	return command
}

func accountGitSetCommand(choice *platformChoice) *cobra.Command {
	settings := &platformv1.GitSettings{}
	command := &cobra.Command{
		Use:   "set",
		Short: "Set the Git provider and the Shared Configuration Repository",
		Long: `Sets them once for the account. The provider and its API are inferred from the URL
of the repository for cloud providers; a server in house needs both.`,
		Example: `  slipway account git set --shared-repository https://github.com/acme/shared.git
  slipway account git set --shared-repository 'https://git.acme.example/ops/shared.git/team?ref=main' --provider gitlab --api-url https://git.acme.example/api/v4`,
		Args: cobra.NoArgs,
	}
	flags := command.Flags()
	flags.StringVar(&settings.SharedRepository, "shared-repository", "", "Shared Configuration Repository: <repo>.git[/<path>][?ref=<branch>]")
	flags.StringVar(&settings.Provider, "provider", "", "github, gitlab, bitbucket or bitbucket-server (default inferred)")
	flags.StringVar(&settings.ApiUrl, "api-url", "", "API of the provider (default inferred)")
	output := newOutputFlag(command, outputJSON, outputYAML)
	command.RunE = withPlatform(choice, output, func(command *cobra.Command, client *platformClient, _ []string) error {
		if settings.SharedRepository == "" {
			return usageError{errors.New("--shared-repository is missing")}
		}
		answer, err := ask(command.Context(), client, client.git().SetGitSettings, &platformv1.SetGitSettingsRequest{Settings: settings})
		if err != nil {
			return err
		}
		return showGitSettings(command, output, answer.GetSettings())
	})
	return command
}

func showGitSettings(command *cobra.Command, output *outputFlag, settings *platformv1.GitSettings) error {
	if settings.GetSharedRepository() == "" && output.form == outputTable {
		note(command, "Nothing is set: slipway account git set --shared-repository URL")
		return nil
	}
	return showMessage(command, output, settings, func(w io.Writer) error {
		facts, flush := newTable(w)
		facts.row("Provider:", orNone(settings.GetProvider()))
		facts.row("API:", orNone(settings.GetApiUrl()))
		facts.row("Shared repository:", settings.GetSharedRepository())
		validated := "no runtime has reached it yet"
		if settings.GetValidated() {
			validated = "yes: the settings are frozen"
		}
		facts.row("Validated:", validated)
		return flush()
	})
}

// roleWord and parseRole are a role as people write it.
func roleWord(role platformv1.Role) string {
	return strings.ToLower(strings.TrimPrefix(role.String(), "ROLE_"))
}

func parseRole(word string) (platformv1.Role, error) {
	switch word {
	case "admin":
		return platformv1.Role_ROLE_ADMIN, nil
	case "user":
		return platformv1.Role_ROLE_USER, nil
	}
	return 0, usageError{fmt.Errorf("--role %q is neither admin nor user", word)}
}
