package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/wire/platformv1"
)

// accountUsersCommand is `slipway account users`.
func accountUsersCommand(choice *platformChoice) *cobra.Command {
	command := &cobra.Command{
		Use: "users", Short: "Look after the users of the account", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(usersListCommand(choice), usersCreateCommand(choice), usersUpdateCommand(choice), usersResetCommand(choice), usersDeleteCommand(choice))
	return command
}

func (c *platformClient) allUsers(command *cobra.Command) ([]*platformv1.User, error) {
	return everyPage(func(page string) ([]*platformv1.User, string, error) {
		answer, err := ask(command.Context(), c, c.accounts().ListUsers, &platformv1.ListUsersRequest{PageSize: pageSize, PageToken: page})
		return answer.GetUsers(), answer.GetNextPageToken(), err
	})
}

// user finds a user by email or ID.
func (c *platformClient) user(command *cobra.Command, name string) (*platformv1.User, error) {
	all, err := c.allUsers(command)
	if err != nil {
		return nil, err
	}
	for _, one := range all {
		if one.GetId() == name || strings.EqualFold(one.GetEmail(), name) {
			return one, nil
		}
	}
	return nil, fmt.Errorf("the account has no user %s: slipway account users list shows them", printable(name))
}

func usersListCommand(choice *platformChoice) *cobra.Command {
	command := &cobra.Command{Use: "list", Short: "List the users", Args: cobra.NoArgs}
	output := newOutputFlag(command, outputJSON, outputYAML)
	command.RunE = withPlatform(choice, output, func(command *cobra.Command, client *platformClient, _ []string) error {
		all, err := client.allUsers(command)
		if err != nil {
			return err
		}
		return showMessage(command, output, &platformv1.ListUsersResponse{Users: all}, func(w io.Writer) error {
			rows, flush := newTable(w)
			rows.row("EMAIL", "NAME", "ROLE", "STATE", "LAST_SIGN_IN", "ID")
			for _, one := range all {
				rows.row(one.GetEmail(), orNone(one.GetName()), roleWord(one.GetRole()), userState(one), shownStamp(one.GetLastSignInAt()), one.GetId())
			}
			return flush()
		})
	})
	return command
}

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

// printOneTime prints a password that is shown once, alone, so that it can be
// piped.
func printOneTime(command *cobra.Command, email, password string) error {
	note(command, "%s signs in once with this password, and chooses another. It is not shown again:", email)
	_, err := fmt.Fprintln(command.OutOrStdout(), password)
	return err
}

func usersCreateCommand(choice *platformChoice) *cobra.Command {
	wanted, role := &platformv1.CreateUserRequest{}, "user"
	command := &cobra.Command{
		Use: "create EMAIL", Short: "Make a user, and print a password for one sign-in", Args: cobra.ExactArgs(1),
		Example: `  slipway account users create grace@example.com --role admin`,
	}
	flags := command.Flags()
	flags.StringVar(&wanted.Name, "name", "", "name of the person (default the email)")
	flags.StringVar(&role, "role", role, "user or admin")
	flags.BoolVar(&wanted.External, "external", false, "signs in through the identity provider only")
	command.RunE = withPlatform(choice, nil, func(command *cobra.Command, client *platformClient, args []string) error {
		var err error
		if wanted.Role, err = parseRole(role); err != nil {
			return err
		}
		wanted.Email = args[0]
		if wanted.Name == "" {
			wanted.Name = args[0]
		}
		answer, err := ask(command.Context(), client, client.accounts().CreateUser, wanted)
		if err != nil {
			return err
		}
		if answer.GetOneTimePassword() == "" {
			note(command, "%s was made, and signs in through the identity provider.", answer.GetUser().GetEmail())
			return nil
		}
		return printOneTime(command, answer.GetUser().GetEmail(), answer.GetOneTimePassword())
	})
	return command
}

func usersUpdateCommand(choice *platformChoice) *cobra.Command {
	var name, role string
	var disable, enable bool
	command := &cobra.Command{
		Use: "update EMAIL|ID", Short: "Change the name, the role or the state of a user", Args: cobra.ExactArgs(1),
		Example: `  slipway account users update grace@example.com --role user --disable`,
	}
	flags := command.Flags()
	flags.StringVar(&name, "name", "", "new name")
	flags.StringVar(&role, "role", "", "user or admin")
	flags.BoolVar(&disable, "disable", false, "end the sessions and keys, and let nobody sign in")
	flags.BoolVar(&enable, "enable", false, "let the user sign in again")
	command.RunE = withPlatform(choice, nil, func(command *cobra.Command, client *platformClient, args []string) error {
		change := &platformv1.UpdateUserRequest{}
		if name != "" {
			change.Name = &name
		}
		if role != "" {
			parsed, err := parseRole(role)
			if err != nil {
				return err
			}
			change.Role = &parsed
		}
		if disable != enable {
			change.Disabled = &disable
		}
		if change.Name == nil && change.Role == nil && change.Disabled == nil {
			return usageError{errors.New("say what to change: --name, --role, and --disable or --enable")}
		}
		user, err := client.user(command, args[0])
		if err != nil {
			return err
		}
		change.Id = user.GetId()
		_, err = ask(command.Context(), client, client.accounts().UpdateUser, change)
		if err == nil {
			note(command, "%s was changed.", user.GetEmail())
		}
		return err
	})
	return command
}

func usersResetCommand(choice *platformChoice) *cobra.Command {
	command := &cobra.Command{
		Use: "reset-password EMAIL|ID", Short: "End a user's sessions, and print a password for one sign-in", Args: cobra.ExactArgs(1),
	}
	command.RunE = withPlatform(choice, nil, func(command *cobra.Command, client *platformClient, args []string) error {
		user, err := client.user(command, args[0])
		if err != nil {
			return err
		}
		answer, err := ask(command.Context(), client, client.accounts().ResetPassword, &platformv1.ResetPasswordRequest{Id: user.GetId()})
		if err != nil {
			return err
		}
		return printOneTime(command, user.GetEmail(), answer.GetOneTimePassword())
	})
	return command
}

func usersDeleteCommand(choice *platformChoice) *cobra.Command {
	var yes bool
	command := &cobra.Command{Use: "delete EMAIL|ID", Short: "Delete a user, and what the user holds", Args: cobra.ExactArgs(1)}
	command.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	command.RunE = withPlatform(choice, nil, func(command *cobra.Command, client *platformClient, args []string) error {
		user, err := client.user(command, args[0])
		if err != nil {
			return err
		}
		if err := newPrompter(command).confirm("Delete "+printable(user.GetEmail())+"?", yes); err != nil {
			return err
		}
		_, err = ask(command.Context(), client, client.accounts().DeleteUser, &platformv1.DeleteUserRequest{Id: user.GetId()})
		if err == nil {
			note(command, "%s was deleted.", user.GetEmail())
		}
		return err
	})
	return command
}
