package gitcmd

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/files"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/cli/prompt"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// defaultIntegration is the integration of commands that name none. Most
// runtimes have only this one, so the name is optional everywhere but in
// remove.
const defaultIntegration = "default"

// Integration returns the command slipway integration. All subcommands share
// one choice of platform and runtime, whose flags are on the group.
func Integration() *cobra.Command {
	choice := &apiclient.Choice{}
	command := apiclient.GroupCommand("integration", "Manage integrations of runtimes with Git providers", choice, true)
	git := &cobra.Command{
		Use:   "git",
		Short: "Manage the Git integrations and tokens of a runtime",
		Long: `Manages the Git integrations of a runtime and the tokens for them: that of the
runtime (set-runtime-token) and yours (register). Tokens are sent to the runtime
and kept in its cluster; the platform stores none, and none is ever shown.`,
	}
	git.AddCommand(
		integrationListCommand(choice), integrationAddCommand(choice), integrationEditCommand(choice), integrationRemoveCommand(choice),
		integrationRegisterCommand(choice), integrationDeregisterCommand(choice), integrationTokenCommand(choice), integrationStatusCommand(choice),
	)
	command.AddCommand(git)
	return command
}

// integrationName returns the argument, or the default integration.
func integrationName(args []string) string {
	if len(args) == 0 {
		return defaultIntegration
	}
	return args[0]
}

// integrationListCommand lists integrations with the state of each user's
// token. The response has no tokens: they never leave the runtime.
func integrationListCommand(choice *apiclient.Choice) *cobra.Command {
	command := &cobra.Command{Use: "list", Short: "List the integrations of a runtime, and the state of tokens", Args: cobra.NoArgs}
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML)
	command.RunE = apiclient.WithRuntime(choice, func(command *cobra.Command, client *apiclient.Client, runtime string, _ []string) error {
		response, err := apiclient.Call(command.Context(), client, client.Integrations(runtime).ListIntegrations, &runtimev1.ListIntegrationsRequest{})
		if err != nil {
			return err
		}
		return printer.Show(command, output, response, func(w io.Writer) error { return printIntegrations(w, response.GetIntegrations()) })
	})
	return command
}

// printIntegrations prints one row per integration and user, and one row for an
// integration without users, so that no integration is missing in the list.
func printIntegrations(w io.Writer, integrations []*runtimev1.Integration) error {
	rows, flush := printer.NewTable(w)
	rows.Row("NAME", "PROVIDER", "API_URL", "SHARING", "USER", "LOGIN", "TOKEN", "EXPIRES", "MESSAGE")
	for _, one := range integrations {
		facts := []string{one.GetName(), one.GetProvider(), printer.OrDash(one.GetApiUrl()), printer.OrDash(one.GetSharing())}
		if len(one.GetUsers()) == 0 {
			rows.Row(append(facts, "-", "-", "none", "-", "")...)
		}
		for _, user := range one.GetUsers() {
			// Row changes its cells in place, so each row gets its own copy of
			// facts.
			rows.Row(append(append([]string{}, facts...), user.GetUser(), printer.OrDash(user.GetLogin()), user.GetState(), printer.Expiry(user.GetExpiresAt()), tokenMessage(user))...)
		}
	}
	return flush()
}

// tokenMessage describes the problem of a token. Missing scopes are appended
// unless the message names the first of them already.
func tokenMessage(status *runtimev1.TokenStatus) string {
	message := status.GetMessage()
	if missing := status.GetMissingScopes(); len(missing) > 0 && !strings.Contains(message, missing[0]) {
		message = strings.TrimSpace(message + " missing: " + strings.Join(missing, ", "))
	}
	return message
}

// integrationFlags adds one flag per field that add and edit can set. An empty
// field means the default of the account; the runtime resolves it.
func integrationFlags(command *cobra.Command, integration *runtimev1.Integration) {
	flags := command.Flags()
	flags.StringVar(&integration.Provider, "provider", "", "github, gitlab, bitbucket, bitbucket-server, or git for another server (default that of the account)")
	flags.StringVar(&integration.ApiUrl, "api-url", "", "API of the provider (default that of the account, or the provider's own)")
	flags.StringVar(&integration.Sharing, "sharing", "", "who may register a token: all-users or admins")
}

// integrationAddCommand adds an integration. Empty fields take the values of
// the account's Git settings.
func integrationAddCommand(choice *apiclient.Choice) *cobra.Command {
	integration := &runtimev1.Integration{}
	command := &cobra.Command{
		Use: "add [NAME]", Short: "Add a Git integration", Args: cobra.MaximumNArgs(1),
		Example: `  slipway integration git add default --runtime prod --api-url https://api.github.com`,
	}
	integrationFlags(command, integration)
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML)
	command.RunE = apiclient.WithRuntime(choice, func(command *cobra.Command, client *apiclient.Client, runtime string, args []string) error {
		integration.Name = integrationName(args)
		response, err := apiclient.Call(command.Context(), client, client.Integrations(runtime).AddIntegration, &runtimev1.AddIntegrationRequest{Integration: integration})
		if err != nil {
			return err
		}
		return printer.Show(command, output, response, func(w io.Writer) error {
			return printIntegrations(w, []*runtimev1.Integration{response.GetIntegration()})
		})
	})
	return command
}

// integrationEditCommand changes the fields whose flags are given; an empty
// value returns a field to its default. The API replaces the whole integration, so the command lists the integrations first
// and keeps the other fields. Two concurrent edits are not detected: the last
// one wins.
func integrationEditCommand(choice *apiclient.Choice) *cobra.Command {
	given := &runtimev1.Integration{}
	command := &cobra.Command{
		Use: "edit [NAME]", Short: "Change the API or the sharing of an integration", Args: cobra.MaximumNArgs(1),
		Long: `Changes the fields whose flags are given. An empty value, such as --api-url "", returns a
field to its default; another provider returns the API to its default, too.`,
	}
	integrationFlags(command, given)
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML)
	command.RunE = apiclient.WithRuntime(choice, func(command *cobra.Command, client *apiclient.Client, runtime string, args []string) error {
		api, name := client.Integrations(runtime), integrationName(args)
		all, err := apiclient.Call(command.Context(), client, api.ListIntegrations, &runtimev1.ListIntegrationsRequest{})
		if err != nil {
			return err
		}
		for _, one := range all.GetIntegrations() {
			if one.GetName() != name {
				continue
			}
			wanted := &runtimev1.Integration{Name: name, Provider: one.GetProvider(), ApiUrl: one.GetApiUrl(), Sharing: one.GetSharing()}
			if command.Flags().Changed("provider") {
				wanted.ApiUrl = "" // the address of one provider is not for another
			}
			for flag, fields := range map[string][2]*string{
				"provider": {&wanted.Provider, &given.Provider}, "api-url": {&wanted.ApiUrl, &given.ApiUrl}, "sharing": {&wanted.Sharing, &given.Sharing},
			} {
				if command.Flags().Changed(flag) {
					*fields[0] = *fields[1]
				}
			}
			response, err := apiclient.Call(command.Context(), client, api.EditIntegration, &runtimev1.EditIntegrationRequest{Integration: wanted})
			if err != nil {
				return err
			}
			return printer.Show(command, output, response, func(w io.Writer) error {
				return printIntegrations(w, []*runtimev1.Integration{response.GetIntegration()})
			})
		}
		// The error names the list command, because a misspelled name is the
		// usual cause.
		return fmt.Errorf("the runtime %s has no Git integration %s: slipway integration git list --runtime %s shows them", runtime, printer.Printable(name), runtime)
	})
	return command
}

// integrationRemoveCommand removes an integration together with the tokens of
// its users. It prompts for confirmation, because the users have to register
// their tokens again.
func integrationRemoveCommand(choice *apiclient.Choice) *cobra.Command {
	var yes bool
	command := &cobra.Command{Use: "remove NAME", Short: "Remove an integration and the users' tokens for it", Args: cobra.ExactArgs(1)}
	command.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	command.RunE = apiclient.WithRuntime(choice, func(command *cobra.Command, client *apiclient.Client, runtime string, args []string) error {
		if err := prompt.New(command).Confirm(fmt.Sprintf("Remove the Git integration %s of the runtime %s, with the tokens of its users?", printer.Printable(args[0]), runtime), yes); err != nil {
			return err
		}
		_, err := apiclient.Call(command.Context(), client, client.Integrations(runtime).RemoveIntegration, &runtimev1.RemoveIntegrationRequest{Name: args[0]})
		return printer.Done(command, err, "The integration %s was removed.", args[0])
	})
	return command
}

// integrationRegisterCommand stores the user's own token at the runtime, which
// uses it for actions on behalf of this user. The token comes from a file,
// standard input or a prompt without echo.
func integrationRegisterCommand(choice *apiclient.Choice) *cobra.Command {
	var token prompt.SecretFlags
	var username string
	command := &cobra.Command{
		Use: "register [NAME]", Short: "Register your own Git token with a runtime", Args: cobra.MaximumNArgs(1),
		Long: `What you change in Git through the runtime, such as Git Sources, is then committed by
you and pushed with this token. Without one you are the author, and the runtime commits
and pushes with its own token. The runtime stores it encrypted in its cluster.`,
		Example: `  slipway integration git register default --runtime prod --token-file token.txt
  pass show github | slipway integration git register default --runtime prod --token-file -`,
	}
	token.Add(command, "token", "your Git token")
	command.Flags().StringVar(&username, "username", "", "user name at the provider, which Bitbucket requires")
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML)
	command.RunE = apiclient.WithRuntime(choice, func(command *cobra.Command, client *apiclient.Client, runtime string, args []string) error {
		// The token is read only after the platform and the runtime are
		// resolved: the user does not type it for a command that fails anyway.
		value, err := readToken(command, client, &token, "A token of yours", (*platformv1.GetTokenHelpResponse).GetUser)
		if err != nil {
			return err
		}
		// The platform forwards the request to the runtime and keeps no copy of
		// the token.
		response, err := apiclient.Call(command.Context(), client, client.Integrations(runtime).Register,
			&runtimev1.RegisterRequest{Integration: integrationName(args), Token: value.Reveal(), Username: username})
		if err != nil {
			return err
		}
		return printer.Show(command, output, response, func(w io.Writer) error { return printToken(w, response.GetStatus()) })
	})
	return command
}

// integrationDeregisterCommand removes the user's own token from the runtime.
// It needs no confirmation: registering the token again restores it.
func integrationDeregisterCommand(choice *apiclient.Choice) *cobra.Command {
	return &cobra.Command{
		Use: "deregister [NAME]", Short: "Remove your own Git token from a runtime", Args: cobra.MaximumNArgs(1),
		RunE: apiclient.WithRuntime(choice, func(command *cobra.Command, client *apiclient.Client, runtime string, args []string) error {
			name := integrationName(args)
			_, err := apiclient.Call(command.Context(), client, client.Integrations(runtime).Deregister, &runtimev1.DeregisterRequest{Integration: name})
			return printer.Done(command, err, "Your token for the integration %s is forgotten.", name)
		}),
	}
}

// readToken reads a token. Before it prompts for one, it prints where that is
// created at the provider of the account, and what it needs. Without a response of
// the platform it prompts all the same.
func readToken(command *cobra.Command, client *apiclient.Client, token *prompt.SecretFlags, what string, of func(*platformv1.GetTokenHelpResponse) *platformv1.TokenHelp) (secret.Text, error) {
	if !token.Given() {
		help, err := apiclient.Call(command.Context(), client, client.Git().GetTokenHelp, &platformv1.GetTokenHelpRequest{})
		if err == nil {
			apiclient.NoteTokenHelp(command, what, of(help))
		}
	}
	return token.Read(command)
}

// printToken prints the state of a token, never the token itself.
func printToken(w io.Writer, status *runtimev1.TokenStatus) error {
	facts, flush := printer.NewTable(w)
	facts.Row("Token:", printer.WithMessage(printer.OrDash(status.GetState()), tokenMessage(status)))
	facts.Row("Login:", printer.OrDash(status.GetLogin()))
	facts.Row("Kind:", printer.OrDash(status.GetKind()))
	facts.Row("Expires:", printer.Expiry(status.GetExpiresAt()))
	facts.Row("Checked:", printer.Timestamp(status.GetCheckedAt()))
	return flush()
}

// integrationTokenCommand sets the credentials of the runtime itself: the
// token, and optionally the SSH key, known hosts and CA certificates of the Git
// server. The runtime checks the permissions of the token before it stores it,
// unless --skip-validation is set.
func integrationTokenCommand(choice *apiclient.Choice) *cobra.Command {
	var token prompt.SecretFlags
	wanted := &runtimev1.SetRuntimeCredentialsRequest{}
	var sshFile, hostsFile, authorityFile string
	command := &cobra.Command{
		Use: "set-runtime-token", Short: "Set the Git token of a runtime", Args: cobra.NoArgs,
		Example: `  slipway integration git set-runtime-token --runtime prod --token-file token.txt
  slipway integration git set-runtime-token --runtime prod --token-file token.txt --ssh-key-file id_ed25519 --known-hosts-file known_hosts`,
	}
	token.Add(command, "token", "the runtime's Git token")
	flags := command.Flags()
	flags.StringVar(&wanted.Username, "username", "", "user name at the provider, which Bitbucket requires")
	flags.StringVar(&sshFile, "ssh-key-file", "", "file with a private SSH key for repositories over SSH")
	flags.StringVar(&hostsFile, "known-hosts-file", "", "known_hosts file for hosts that are not well known")
	flags.StringVar(&authorityFile, "git-ca-file", "", "PEM file with the CA certificates of a self-hosted Git server")
	flags.BoolVar(&wanted.SkipValidation, "skip-validation", false, "store the token even if a permission is missing or cannot be checked")
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML)
	command.RunE = apiclient.WithRuntime(choice, func(command *cobra.Command, client *apiclient.Client, runtime string, _ []string) error {
		value, err := readToken(command, client, &token, "A token of the runtime", (*platformv1.GetTokenHelpResponse).GetRuntime)
		if err != nil {
			return err
		}
		wanted.Token = value.Reveal()
		// Both are read like secrets: bounded in size, with a warning about a
		// file that other users can read.
		for _, from := range []struct {
			path, what string
			to         *string
		}{{sshFile, "the SSH key", &wanted.SshPrivateKey}, {hostsFile, "the known hosts", &wanted.KnownHosts}} {
			if from.path == "" {
				continue
			}
			text, err := prompt.ReadSecret(command, from.path, from.what)
			if err != nil {
				return err
			}
			// SSH tools need the newline at the end that ReadSecret trims.
			*from.to = text.Reveal() + "\n"
		}
		// The certificates are parsed here, so that a wrong file is a usage
		// error and not a failure of the runtime.
		authorities, err := files.ReadAuthorities(authorityFile)
		if err != nil {
			return exit.UsageError{Err: fmt.Errorf("--git-ca-file: %w", err)}
		}
		wanted.CertificateAuthorities = string(authorities)
		response, err := apiclient.Call(command.Context(), client, client.Integrations(runtime).SetRuntimeCredentials, wanted)
		if err != nil {
			return err
		}
		return printer.Show(command, output, response, func(w io.Writer) error { return printToken(w, response.GetStatus()) })
	})
	return command
}

// integrationStatusCommand shows the state of the runtime's own token. The exit
// code is 1 for a missing or unusable token, so that scripts can renew it. With
// --check the runtime contacts the provider first.
func integrationStatusCommand(choice *apiclient.Choice) *cobra.Command {
	wanted := &runtimev1.GetRuntimeCredentialsRequest{}
	command := &cobra.Command{
		Use: "status", Short: "Show the state of a runtime's Git token", Args: cobra.NoArgs,
		Long: "Shows the state of the runtime's own Git token. The exit code is 1 when there is none, or when it is not valid.",
	}
	command.Flags().BoolVar(&wanted.Check, "check", false, "check the token at the provider now")
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML)
	command.RunE = apiclient.WithRuntime(choice, func(command *cobra.Command, client *apiclient.Client, runtime string, _ []string) error {
		response, err := apiclient.Call(command.Context(), client, client.Integrations(runtime).GetRuntimeCredentials, wanted)
		if err != nil {
			return err
		}
		err = printer.Show(command, output, response, func(w io.Writer) error {
			// JSON and YAML carry the field configured; the table has nothing
			// to show without a token.
			if !response.GetConfigured() {
				return nil
			}
			return printToken(w, response.GetStatus())
		})
		// The state is printed first; the exit code reports it to scripts.
		switch state := response.GetStatus().GetState(); {
		case err != nil:
			return err
		case !response.GetConfigured():
			return fmt.Errorf("the runtime %s has no Git token: run slipway integration git set-runtime-token --runtime %s --token-file FILE", runtime, runtime)
		// Other states, such as one that is not checked yet, are no failure.
		case state == "expired" || state == "revoked" || state == "insufficient":
			return exit.Status{Code: exit.Failure, Err: fmt.Errorf("the runtime's Git token is %s: give it another with slipway integration git set-runtime-token --runtime %s --token-file FILE", state, runtime)}
		}
		return nil
	})
	return command
}
