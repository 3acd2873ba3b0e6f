package accountcmd

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/cli/prompt"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// accountUsersCommand returns the command slipway account users. Users are
// named by email or ID; FindUser resolves both.
func accountUsersCommand(choice *apiclient.Choice) *cobra.Command {
	command := &cobra.Command{Use: "users", Short: "Manage the users of the account"}
	command.AddCommand(usersListCommand(choice), usersCreateCommand(choice), usersUpdateCommand(choice), usersResetCommand(choice), usersResetFactorCommand(choice), usersDeleteCommand(choice))
	return command
}

// usersListCommand returns the command that lists all users. It reads every
// page before it prints, so that columns align and an error prints no partial
// list.
func usersListCommand(choice *apiclient.Choice) *cobra.Command {
	command := &cobra.Command{Use: "list", Short: "List the users", Args: cobra.NoArgs}
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML)
	command.RunE = apiclient.WithClient(choice, func(command *cobra.Command, client *apiclient.Client, _ []string) error {
		all, err := client.ListUsers(command)
		if err != nil {
			return err
		}
		return printer.Show(command, output, &platformv1.ListUsersResponse{Users: all}, func(w io.Writer) error {
			return printer.List(w, []string{"EMAIL", "NAME", "ROLE", "STATE", "LAST_SIGN_IN", "SECOND_FACTOR", "ID"}, all, func(one *platformv1.User) []string {
				return []string{one.GetEmail(), printer.OrDash(one.GetName()), apiclient.RoleName(one.GetRole()), userState(one), printer.Timestamp(one.GetLastSignInAt()), secondFactor(one), one.GetId()}
			})
		})
	})
	return command
}

// userState describes what a user can do, the most restricting state first: a
// disabled user of the identity provider is disabled.
func userState(user *platformv1.User) string {
	switch {
	case user.GetDisabled():
		return "disabled"
	case user.GetExternal():
		return "identity provider"
	case user.GetMustChangePassword():
		return "must choose a password"
	}
	return "active"
}

// secondFactor describes whether a user has a second factor. Users of the
// identity provider have none here.
func secondFactor(user *platformv1.User) string {
	switch {
	case user.GetExternal():
		return "-"
	case user.GetSecondFactor():
		return "yes"
	}
	return "no"
}

// printOneTime prints a one-time password alone on standard output, so that it
// can be piped; the note about its use goes to standard error.
func printOneTime(command *cobra.Command, email, password string) error {
	printer.Note(command, "%s signs in once with this password, and chooses another. It is not shown again:", email)
	_, err := fmt.Fprintln(command.OutOrStdout(), password)
	return err
}

// usersCreateCommand returns the command that creates a user. The platform
// generates the password, so that none travels in a command line. External
// users sign in through the identity provider and get no password.
func usersCreateCommand(choice *apiclient.Choice) *cobra.Command {
	// The role with the fewest permissions is the default.
	wanted, role := &platformv1.CreateUserRequest{}, permission.RoleViewer
	command := &cobra.Command{
		Use: "create EMAIL", Short: "Create a user, and print a one-time password", Args: cobra.ExactArgs(1),
		Example: `  slipway account users create grace@example.com --role admin`,
	}
	flags := command.Flags()
	flags.StringVar(&wanted.Name, "name", "", "display name of the user (default the email)")
	flags.StringVar(&role, "role", role, "restricted, viewer, operator or admin")
	flags.BoolVar(&wanted.External, "external", false, "allow sign-in through the identity provider only")
	command.RunE = apiclient.WithClient(choice, func(command *cobra.Command, client *apiclient.Client, args []string) error {
		var err error
		if wanted.Role, err = parseRole(role); err != nil {
			return err
		}
		wanted.Email = args[0]
		if wanted.Name == "" {
			wanted.Name = args[0]
		}
		response, err := apiclient.Call(command.Context(), client, client.Accounts().CreateUser, wanted)
		if err != nil {
			return err
		}
		// External users have no password at this platform.
		if response.GetOneTimePassword() == "" {
			printer.Note(command, "%s was made, and signs in through the identity provider.", response.GetUser().GetEmail())
			return nil
		}
		return printOneTime(command, response.GetUser().GetEmail(), response.GetOneTimePassword())
	})
	return command
}

// usersUpdateCommand returns the command that changes the fields whose flags
// are set; nil fields of the request leave theirs as they are. A request
// without a change is refused here: the platform would accept it and the user
// would believe it worked.
func usersUpdateCommand(choice *apiclient.Choice) *cobra.Command {
	var name, role string
	var disable, enable bool
	command := &cobra.Command{
		Use: "update EMAIL|ID", Short: "Change the name, the role or the state of a user", Args: cobra.ExactArgs(1),
		Example: `  slipway account users update grace@example.com --role viewer --disable`,
	}
	flags := command.Flags()
	flags.StringVar(&name, "name", "", "new name")
	flags.StringVar(&role, "role", "", "restricted, viewer, operator or admin")
	flags.BoolVar(&disable, "disable", false, "end the sessions and keys, and block sign-in")
	flags.BoolVar(&enable, "enable", false, "allow the user to sign in again")
	command.RunE = apiclient.WithClient(choice, func(command *cobra.Command, client *apiclient.Client, args []string) error {
		change := &platformv1.UpdateUserRequest{}
		if name != "" {
			change.Name = &name
		}
		// Parsed before the user is looked up: a wrong role sends no request.
		if role != "" {
			parsed, err := parseRole(role)
			if err != nil {
				return err
			}
			change.Role = &parsed
		}
		if disable && enable {
			return exit.UsageError{Err: errors.New("--disable and --enable exclude each other")}
		}
		if disable || enable {
			change.Disabled = &disable
		}
		if change.Name == nil && change.Role == nil && change.Disabled == nil {
			return exit.UsageError{Err: errors.New("name what to change: --name, --role, and --disable or --enable")}
		}
		user, err := client.FindUser(command, args[0])
		if err != nil {
			return err
		}
		change.Id = user.GetId()
		_, err = apiclient.Call(command.Context(), client, client.Accounts().UpdateUser, change)
		return printer.Done(command, err, "%s was changed.", user.GetEmail())
	})
	return command
}

// usersResetCommand returns the command that replaces a user's password by a
// one-time password, which ends the sessions and keys of the user.
func usersResetCommand(choice *apiclient.Choice) *cobra.Command {
	command := &cobra.Command{
		Use: "reset-password EMAIL|ID", Short: "Reset the password of a user, and print a one-time password", Args: cobra.ExactArgs(1),
	}
	command.RunE = apiclient.WithClient(choice, func(command *cobra.Command, client *apiclient.Client, args []string) error {
		user, err := client.FindUser(command, args[0])
		if err != nil {
			return err
		}
		response, err := apiclient.Call(command.Context(), client, client.Accounts().ResetPassword, &platformv1.ResetPasswordRequest{Id: user.GetId()})
		if err != nil {
			return err
		}
		printer.Note(command, "The sessions and API keys of %s have ended.", user.GetEmail())
		return printOneTime(command, user.GetEmail(), response.GetOneTimePassword())
	})
	return command
}

// usersResetFactorCommand returns the command that removes the second factors
// of a user who has lost them.
func usersResetFactorCommand(choice *apiclient.Choice) *cobra.Command {
	command := &cobra.Command{
		Use: "reset-second-factor EMAIL|ID", Short: "Remove the second factors of a user, and end the user's sessions", Args: cobra.ExactArgs(1),
	}
	command.RunE = apiclient.WithClient(choice, func(command *cobra.Command, client *apiclient.Client, args []string) error {
		user, err := client.FindUser(command, args[0])
		if err != nil {
			return err
		}
		_, err = apiclient.Call(command.Context(), client, client.Accounts().ResetSecondFactor, &platformv1.ResetSecondFactorRequest{Id: user.GetId()})
		return printer.Done(command, err, "%s has no second factor any more, and the sessions have ended.", user.GetEmail())
	})
	return command
}

// usersDeleteCommand returns the command that deletes a user. The prompt names
// the email that was found, because the argument may be an ID.
func usersDeleteCommand(choice *apiclient.Choice) *cobra.Command {
	var yes bool
	command := &cobra.Command{Use: "delete EMAIL|ID", Short: "Delete a user with its keys and sessions", Args: cobra.ExactArgs(1)}
	command.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	command.RunE = apiclient.WithClient(choice, func(command *cobra.Command, client *apiclient.Client, args []string) error {
		user, err := client.FindUser(command, args[0])
		if err != nil {
			return err
		}
		if err := prompt.New(command).Confirm("Delete "+printer.Printable(user.GetEmail())+"?", yes); err != nil {
			return err
		}
		_, err = apiclient.Call(command.Context(), client, client.Accounts().DeleteUser, &platformv1.DeleteUserRequest{Id: user.GetId()})
		return printer.Done(command, err, "%s was deleted.", user.GetEmail())
	})
	return command
}
