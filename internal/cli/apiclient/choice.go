package apiclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/secret"
)

// WithClient returns the RunE of a command that calls the platform: it checks
// --output, opens the client, and closes it when run returns. output is nil for
// a command without that flag.
func WithClient(choice *Choice, run func(*cobra.Command, *Client, []string) error) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, args []string) error {
		client, err := choice.Open()
		if err != nil {
			return err
		}
		defer client.Close()
		return run(command, client, args)
	}
}

// WithRuntime is WithClient for a command that is about one runtime. It
// resolves the name first, which may list the runtimes of the account.
func WithRuntime(choice *Choice, run func(*cobra.Command, *Client, string, []string) error) func(*cobra.Command, []string) error {
	return WithClient(choice, func(command *cobra.Command, client *Client, args []string) error {
		name, err := client.chosenRuntime(command.Context())
		if err != nil {
			return err
		}
		return run(command, client, name, args)
	})
}

// NamedRuntime returns the runtime of the flag or the environment, empty
// without either.
func (p *Choice) NamedRuntime() string { return cmp.Or(p.Runtime, os.Getenv(RuntimeVariable)) }

// Choice selects the platform that a command calls, and the runtime behind it.
// It holds values of flags, which are set when cobra has parsed them; the
// environment and the contexts are read when a client is opened.
type Choice struct {
	Context string
	Url     string
	Runtime string
}

// AddFlags adds the flags that select the platform.
func (p *Choice) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&p.Context, "platform-context", "", "context of the platform (default the current one; slipway config list shows them)")
	flags.StringVar(&p.Url, "platform-url", "", "URL of the platform; the key is in "+KeyVariable)
	_ = flags.MarkHidden("platform-url") // it is there
}

// AddRuntimeFlags is AddFlags with the flag that selects the runtime.
func (p *Choice) AddRuntimeFlags(flags *pflag.FlagSet) {
	p.AddFlags(flags)
	flags.StringVar(&p.Runtime, "runtime", "", "runtime (default "+RuntimeVariable+", that of the context, or the only one)")
}

// GroupCommand returns a command that only has subcommands, with the flags that
// select the platform and, if withRuntime is set, the runtime.
func GroupCommand(use, short string, choice *Choice, withRuntime bool) *cobra.Command {
	command := &cobra.Command{Use: use, Short: short}
	if withRuntime {
		choice.AddRuntimeFlags(command.PersistentFlags())
		_ = command.RegisterFlagCompletionFunc("runtime", choice.CompleteRuntimes) // the flag is there
	} else {
		choice.AddFlags(command.PersistentFlags())
	}
	_ = command.RegisterFlagCompletionFunc("platform-context", CompleteContexts) // the flag is there
	return command
}

// ErrNoPlatform is returned when no context is current and neither a flag nor
// the environment names a platform. Commands that also work without a platform
// test for it.
var ErrNoPlatform = errors.New("no platform is chosen: run slipway login URL, choose a context with slipway config use NAME, or set " + UrlVariable + " and " + KeyVariable)

// resolve finds the platform and the key: a flag wins over the environment, and
// the environment over the current context. SLIPWAY_API_KEY replaces the key of
// the current context, but not that of a context named by flag: the key might
// be another platform's.
func (p *Choice) resolve() (Context, error) {
	key := secret.New(strings.TrimSpace(os.Getenv(KeyVariable)))
	address := cmp.Or(p.Url, os.Getenv(UrlVariable))
	if p.Context == "" && address != "" {
		if key.IsZero() {
			return Context{}, exit.UsageError{Err: fmt.Errorf("there is no key for the platform: put one into %s", KeyVariable)}
		}
		return Context{URL: address, Key: key}, nil
	}
	book, err := ReadContexts()
	if err != nil {
		return Context{}, exit.UsageError{Err: err}
	}
	name := cmp.Or(p.Context, book.Current)
	if name == "" {
		return Context{}, exit.UsageError{Err: ErrNoPlatform}
	}
	found := book.Find(name)
	if found == nil {
		return Context{}, exit.UsageError{Err: fmt.Errorf("there is no context %s: slipway config list shows those that there are", printer.Printable(name))}
	}
	chosen := *found
	if p.Context == "" && !key.IsZero() {
		chosen.Key = key
	}
	if chosen.Key.IsZero() {
		return Context{}, exit.UsageError{Err: fmt.Errorf("the context %s has no key: run slipway login %s --name %s", printer.Printable(name), chosen.URL, printer.Printable(name))}
	}
	return chosen, nil
}

// Open returns a client for the chosen platform. It sends nothing yet: a wrong
// key or address is found by the first request. The caller closes it.
func (p *Choice) Open() (*Client, error) {
	chosen, err := p.resolve()
	if err != nil {
		return nil, err
	}
	client, err := New(chosen)
	if err != nil {
		return nil, exit.UsageError{Err: err}
	}
	client.namedRuntime = p.Runtime
	return client, nil
}

// CompleteContexts completes the names of contexts in shells, as an argument or
// the value of a flag. Errors complete nothing.
func CompleteContexts(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	book, err := ReadContexts()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []cobra.Completion
	for _, one := range book.Entries {
		names = append(names, cobra.CompletionWithDesc(one.Name, one.URL))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completionTimeout is how long pressing Tab may take. It is far below
// RequestTimeout, because the shell blocks.
const completionTimeout = 3 * time.Second

// CompleteRuntimes completes the value of --runtime. A platform that cannot be
// reached completes nothing: there is no place for an error in a shell's
// completion.
func (p *Choice) CompleteRuntimes(command *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	client, err := p.Open()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(command.Context(), completionTimeout)
	defer cancel()
	all, err := client.ListRuntimes(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []cobra.Completion
	for _, one := range all {
		names = append(names, cobra.CompletionWithDesc(one.GetName(), one.GetCluster()))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// CompleteRuntimeArg is CompleteRuntimes for the first argument.
func (p *Choice) CompleteRuntimeArg(command *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return p.CompleteRuntimes(command, args, typed)
}

// OpenOptional is Choice.Open for commands that also work without a platform:
// the client is nil if none is chosen.
func OpenOptional(choice *Choice) (*Client, error) {
	client, err := choice.Open()
	if errors.Is(err, ErrNoPlatform) {
		return nil, nil
	}
	return client, err
}
