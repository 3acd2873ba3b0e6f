package accountcmd

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/wire"
)

// Config returns the command slipway config, which manages the contexts of this
// machine. It never contacts a platform.
func Config() *cobra.Command {
	command := &cobra.Command{
		Use:   "config",
		Short: "Manage contexts: the platforms you have signed in to",
		Long: `Manages contexts: platforms with your credentials, and the default runtime for
commands that name none. They are in the file $` + apiclient.ConfigVariable + `, or
$XDG_CONFIG_HOME/slipway/config.yaml, which only you can read. slipway login adds
a context. The variables ` + apiclient.UrlVariable + `, ` + apiclient.KeyVariable + ` and ` + apiclient.RuntimeVariable + ` override the
current context, and the flags --platform-context and --runtime override both.`,
	}
	command.AddCommand(configListCommand(), configUseCommand(), configCurrentCommand(), configDeleteCommand(), configRuntimeCommand())
	return command
}

// configListCommand returns the command that lists the contexts. ShownContext
// has no field for the key, so no output form can print it.
func configListCommand() *cobra.Command {
	command := &cobra.Command{Use: "list", Short: "List the contexts", Args: cobra.NoArgs}
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML)
	command.RunE = func(command *cobra.Command, _ []string) error {
		book, err := apiclient.ReadContexts()
		if err != nil {
			return exit.UsageError{Err: err}
		}
		// The keys are dropped here, before any form of output is chosen.
		shown := apiclient.ShownContexts(book)
		if output.Form != printer.FormTable {
			return output.Encode(command.OutOrStdout(), map[string]any{"contexts": shown})
		}
		if len(shown) == 0 {
			printer.Note(command, "There is no context: slipway login URL makes one.")
			return nil
		}
		return printContexts(command.OutOrStdout(), shown)
	}
	return command
}

// printContexts prints contexts as a table and marks the current one with an
// asterisk, as kubectl does.
func printContexts(w io.Writer, shown []apiclient.ShownContext) error {
	return printer.List(w, []string{"CURRENT", "NAME", "URL", "ACCOUNT", "USER", "RUNTIME", "KEY_EXPIRES"}, shown, func(one apiclient.ShownContext) []string {
		current := ""
		if one.Current {
			current = "*"
		}
		return []string{current, one.Name, one.URL, printer.OrDash(one.Account), printer.OrDash(one.User), printer.OrDash(one.Runtime), cmp.Or(one.KeyExpires, "never")}
	})
}

// configUseCommand returns the command that makes a context current. The change
// is made under the lock of the file, so that two commands do not lose each
// other's.
func configUseCommand() *cobra.Command {
	return &cobra.Command{
		Use: "use NAME", Short: "Switch to a context", Args: cobra.ExactArgs(1), ValidArgsFunction: apiclient.CompleteContexts,
		RunE: func(command *cobra.Command, args []string) error {
			return apiclient.UpdateContexts(command.Context(), func(book *apiclient.Contexts) error {
				if book.Find(args[0]) == nil {
					return apiclient.NoContext(args[0])
				}
				book.Current = args[0]
				return nil
			})
		},
	}
}

// configCurrentCommand returns the command that prints the name of the current
// context alone, for scripts and shell prompts. It fails if there is none.
func configCurrentCommand() *cobra.Command {
	return &cobra.Command{
		Use: "current", Short: "Show the current context", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			book, err := apiclient.ReadContexts()
			if err != nil {
				return exit.UsageError{Err: err}
			}
			if book.Current == "" {
				return errors.New("no context is current: run slipway login URL, or slipway config use NAME")
			}
			_, err = fmt.Fprintln(command.OutOrStdout(), printer.Printable(book.Current))
			return err
		},
	}
}

// configDeleteCommand returns the command that deletes a context. Its key stays
// valid at the platform, which the note points out; logout revokes the key
// first.
func configDeleteCommand() *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME", Short: "Delete a context without revoking its key", Args: cobra.ExactArgs(1), ValidArgsFunction: apiclient.CompleteContexts,
		Long: `Deletes a context without contacting the platform, so the key stays valid until it
expires; slipway logout revokes it first.`,
		RunE: func(command *cobra.Command, args []string) error {
			return apiclient.UpdateContexts(command.Context(), func(book *apiclient.Contexts) error {
				found := book.Find(args[0])
				if found == nil {
					return apiclient.NoContext(args[0])
				}
				// The ID lets the user revoke the key later, when the context
				// is gone.
				if found.KeyID != "" {
					printer.Note(command, "The key %s stays good until it expires: slipway api-key revoke %[1]s ends it.", found.KeyID)
				}
				book.Remove(args[0])
				return nil
			})
		},
	}
}

// configRuntimeCommand returns the command that sets the default runtime of a
// context. Only the form of the name is checked: the runtime may not exist yet,
// and the command works without a platform.
func configRuntimeCommand() *cobra.Command {
	choice, none := &apiclient.Choice{}, false
	command := &cobra.Command{
		Use: "set-runtime [NAME]", Short: "Set the default runtime of a context", Args: cobra.MaximumNArgs(1),
		Example: `  slipway config set-runtime prod
  slipway config set-runtime --none`,
		ValidArgsFunction: choice.CompleteRuntimeArg,
	}
	command.Flags().StringVar(&choice.Context, "platform-context", "", "context to change (default the current one)")
	command.Flags().BoolVar(&none, "none", false, "unset the default runtime")
	command.RunE = func(command *cobra.Command, args []string) error {
		// Exactly one of the two: a missing name must not clear the default by
		// accident.
		if (len(args) == 1) == none {
			return exit.UsageError{Err: errors.New("give the name of a runtime, or --none")}
		}
		name := ""
		if len(args) == 1 {
			name = args[0]
			if err := wire.RuntimeName(name); err != nil {
				return exit.UsageError{Err: err}
			}
		}
		return apiclient.UpdateContexts(command.Context(), func(book *apiclient.Contexts) error {
			// Resolved inside the lock: another command may have changed the
			// current context.
			context := cmp.Or(choice.Context, book.Current)
			found := book.Find(context)
			if found == nil {
				return apiclient.NoContext(context)
			}
			found.Runtime = name
			return nil
		})
	}
	return command
}
