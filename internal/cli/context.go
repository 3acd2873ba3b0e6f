package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/wire"
)

// configCommand is `slipway config`: the platforms that this person knows.
func configCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "config",
		Short: "Choose which platform is asked",
		Long: `Looks after the contexts: platforms with who you are there, and the runtime that is
asked when none is named. They are in the file $` + configVariable + `, or
$XDG_CONFIG_HOME/slipway/config.yaml, which only you can read. slipway login adds
one. The variables ` + urlVariable + `, ` + appKeyVariable + ` and ` + runtimeVariable + ` win over the current
context, and the flags --platform-context and --runtime over both.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(configListCommand(), configUseCommand(), configCurrentCommand(), configDeleteCommand(), configRuntimeCommand())
	return command
}

// shownContext is a context without its key.
type shownContext struct {
	Current bool   `json:"current"`
	Name    string `json:"name"`
	URL     string `json:"url"`
	Account string `json:"account"`
	User    string `json:"user"`
	Runtime string `json:"runtime"`
	// KeyExpires is empty if the key does not expire.
	KeyExpires string `json:"keyExpires"`
	CAFile     string `json:"caFile,omitempty"`
}

func shownContexts(book *contextBook) []shownContext {
	shown := []shownContext{}
	for _, one := range book.Contexts {
		expires := ""
		if !one.KeyExpires.IsZero() {
			expires = one.KeyExpires.UTC().Format(time.RFC3339)
		}
		shown = append(shown, shownContext{
			Current: one.Name == book.Current, Name: one.Name, URL: one.URL, Account: one.Account, User: one.User,
			Runtime: one.Runtime, KeyExpires: expires, CAFile: one.CAFile,
		})
	}
	return shown
}

func configListCommand() *cobra.Command {
	command := &cobra.Command{Use: "list", Short: "List the contexts", Args: cobra.NoArgs}
	output := newOutputFlag(command, outputJSON, outputYAML)
	command.RunE = func(command *cobra.Command, _ []string) error {
		if err := output.check(); err != nil {
			return err
		}
		book, err := readContexts()
		if err != nil {
			return usageError{err}
		}
		shown := shownContexts(book)
		if output.form != outputTable {
			return output.encode(command.OutOrStdout(), map[string]any{"contexts": shown})
		}
		if len(shown) == 0 {
			note(command, "There is no context: slipway login URL makes one.")
			return nil
		}
		return printContexts(command.OutOrStdout(), shown)
	}
	return command
}

func printContexts(w io.Writer, shown []shownContext) error {
	rows, flush := newTable(w)
	rows.row("CURRENT", "NAME", "URL", "ACCOUNT", "USER", "RUNTIME", "KEY_EXPIRES")
	for _, one := range shown {
		current := ""
		if one.Current {
			current = "*"
		}
		rows.row(current, one.Name, one.URL, orNone(one.Account), orNone(one.User), orNone(one.Runtime), cmp.Or(one.KeyExpires, "never"))
	}
	return flush()
}

func configUseCommand() *cobra.Command {
	return &cobra.Command{
		Use: "use NAME", Short: "Make a context the current one", Args: cobra.ExactArgs(1), ValidArgsFunction: completeContexts,
		RunE: func(command *cobra.Command, args []string) error {
			return changeContexts(command.Context(), func(book *contextBook) error {
				if book.find(args[0]) == nil {
					return noContext(args[0])
				}
				book.Current = args[0]
				return nil
			})
		},
	}
}

func noContext(name string) error {
	return usageError{fmt.Errorf("there is no context %s: slipway config list shows those that there are", printable(name))}
}

func configCurrentCommand() *cobra.Command {
	return &cobra.Command{
		Use: "current", Short: "Say which context is current", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			book, err := readContexts()
			if err != nil {
				return usageError{err}
			}
			if book.Current == "" {
				return errors.New("no context is current: run slipway login URL, or slipway config use NAME")
			}
			_, err = fmt.Fprintln(command.OutOrStdout(), printable(book.Current))
			return err
		},
	}
}

func configDeleteCommand() *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME", Short: "Forget a context; its key stays good", Args: cobra.ExactArgs(1), ValidArgsFunction: completeContexts,
		Long: `Forgets a context. The platform is not asked, so the key stays good until it expires;
slipway logout revokes it first.`,
		RunE: func(command *cobra.Command, args []string) error {
			return changeContexts(command.Context(), func(book *contextBook) error {
				found := book.find(args[0])
				if found == nil {
					return noContext(args[0])
				}
				if found.KeyID != "" {
					note(command, "The key %s stays good until it expires: slipway api-key revoke ends it.", found.KeyID)
				}
				book.remove(args[0])
				return nil
			})
		},
	}
}

func configRuntimeCommand() *cobra.Command {
	choice, none := &platformChoice{}, false
	command := &cobra.Command{
		Use: "set-runtime [NAME]", Short: "Set which runtime is asked when none is named", Args: cobra.MaximumNArgs(1),
		Example: `  slipway config set-runtime prod
  slipway config set-runtime --none`,
		ValidArgsFunction: choice.completeRuntimeArg,
	}
	command.Flags().StringVar(&choice.context, "platform-context", "", "context to change (default the current one)")
	command.Flags().BoolVar(&none, "none", false, "ask for a name again")
	command.RunE = func(command *cobra.Command, args []string) error {
		if (len(args) == 1) == none {
			return usageError{errors.New("give the name of a runtime, or --none")}
		}
		name := ""
		if len(args) == 1 {
			name = args[0]
			if err := wire.RuntimeName(name); err != nil {
				return usageError{err}
			}
		}
		return changeContexts(command.Context(), func(book *contextBook) error {
			context := cmp.Or(choice.context, book.Current)
			found := book.find(context)
			if found == nil {
				return noContext(context)
			}
			found.Runtime = name
			return nil
		})
	}
	return command
}

// completeContexts completes names of contexts.
func completeContexts(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	book, err := readContexts()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []cobra.Completion
	for _, one := range book.Contexts {
		names = append(names, cobra.CompletionWithDesc(one.Name, one.URL))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completionTimeout is how long somebody who presses Tab waits.
const completionTimeout = 3 * time.Second

// completeRuntimes completes the value of --runtime.
func (p *platformChoice) completeRuntimes(command *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	client, err := p.open()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer client.close()
	ctx, cancel := context.WithTimeout(command.Context(), completionTimeout)
	defer cancel()
	all, err := client.allRuntimes(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []cobra.Completion
	for _, one := range all {
		names = append(names, cobra.CompletionWithDesc(one.GetName(), one.GetCluster()))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeRuntimeArg completes the first argument.
func (p *platformChoice) completeRuntimeArg(command *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return p.completeRuntimes(command, args, typed)
}
