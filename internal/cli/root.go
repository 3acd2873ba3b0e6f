// Package cli is the command line of the program: one file for each command,
// and all the wiring of the program, nothing else.
//
// It promises that a command ends with 0 when it did what was asked, 1 when it
// failed, and 2 when the command line or the configuration was wrong; that
// messages for people are on standard error and results on standard output;
// and that a command is listed only when it does its work. Cancelling the
// context ends every command in good order.
//
// cmd/slipway is its only caller.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"slipway.dev/slipway/internal/observe"
)

// Exit codes.
const (
	exitOK        = 0
	exitFailure   = 1
	exitUsage     = 2
	exitInterrupt = 130 // 128 + SIGINT, as shells count
)

// Execute runs one command line and gives the exit code.
func Execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return program{runEdge: runEdge}.execute(ctx, args, stdout, stderr)
}

// program is the command line with the part that tests replace.
type program struct {
	runEdge edgeRunner
}

// root assembles the commands.
func (p program) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "slipway",
		Short: "What is in Git becomes live on Kubernetes and gets its traffic",
		Long: `Slipway takes what is in Git, makes it live on Kubernetes, and serves the
traffic for it: a GitOps runtime and an ingress controller in one program.`,
		SilenceErrors: true, // execute prints them, and knows the exit code
		SilenceUsage:  true,
		PersistentPreRunE: func(command *cobra.Command, _ []string) error {
			return checkLogFlags(command)
		},
	}
	root.SetFlagErrorFunc(suggestFlag)
	root.PersistentFlags().String("log.level", "info", "least severe message that is logged: debug, info, warn, error")
	root.PersistentFlags().String("log.format", "auto", "how messages are written: text, json, or auto (text on a terminal)")
	root.AddCommand(
		edgeCommand(p.runEdge),
		agentCommand(),
		platformCommand(),
		loginCommand(),
		logoutCommand(),
		whoamiCommand(),
		configCommand(),
		runtimeCommand(),
		appCommand(),
		gitSourceCommand(),
		integrationCommand(),
		clusterCommand(),
		helmCommand(),
		crdsCommand(),
		imagesCommand(),
		accountCommand(),
		apiKeyCommand(),
		auditCommand(),
		doctorCommand(),
		preflightCommand(),
		renderCommand(),
		renderWorkerCommand(),
		explainCommand(),
		lintCommand(),
		upCommand(),
		versionCommand(),
		docsCommand(),
	)
	return root
}

// checkLogFlags refuses a level or format that does not exist, also where
// nothing is logged. The edge has them among its options.
func checkLogFlags(command *cobra.Command) error {
	if command.DisableFlagParsing {
		return nil
	}
	level, _ := command.Flags().GetString("log.level")
	format, _ := command.Flags().GetString("log.format")
	if _, err := observe.NewLogger(io.Discard, level, format); err != nil {
		return usageError{err}
	}
	return nil
}

// suggestFlag adds the nearest flags to the error for an unknown one, the way
// that cobra does for commands.
func suggestFlag(command *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	names := &cobra.Command{SuggestionsMinimumDistance: 2}
	command.Flags().VisitAll(func(flag *pflag.Flag) {
		names.AddCommand(&cobra.Command{Use: flag.Name, Run: func(*cobra.Command, []string) {}})
	})
	near := names.SuggestionsFor(unknown.GetSpecifiedName())
	if len(near) == 0 {
		return err
	}
	return fmt.Errorf("%w: did you mean --%s?", err, strings.Join(near, " or --"))
}

// usageError is a mistake in the command line or the configuration.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

// verdict is the exit code of a command that says something by it, such as a
// diff. Without an error there is nothing to print.
type verdict struct {
	code int
	err  error
}

func (v verdict) Error() string {
	if v.err == nil {
		return ""
	}
	return v.err.Error()
}

func (v verdict) Unwrap() error { return v.err }

func (p program) execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := p.root()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	// What cobra refuses before a command runs is a mistake in the command
	// line; it has no type of its own to tell.
	started := false
	check := root.PersistentPreRunE
	root.PersistentPreRunE = func(command *cobra.Command, args []string) error {
		started = true
		return check(command, args)
	}

	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if said := (verdict{}); !errors.As(err, &said) || said.err != nil {
		printError(stderr, err)
	}
	if !started {
		_, _ = fmt.Fprintf(stderr, "Run '%s --help' for what it takes.\n", command.CommandPath())
		return exitUsage
	}
	if usage := (usageError{}); errors.As(err, &usage) {
		return exitUsage
	}
	if said := (verdict{}); errors.As(err, &said) {
		return said.code
	}
	return exitFailure
}

// printError shows an error; one that joins several is shown as a list.
func printError(w io.Writer, err error) {
	problems := problemsOf(err)
	if len(problems) == 1 {
		_, _ = fmt.Fprintf(w, "slipway: %v\n", problems[0])
		return
	}
	_, _ = fmt.Fprintf(w, "slipway: %d problems:\n", len(problems))
	for _, problem := range problems {
		_, _ = fmt.Fprintf(w, "  - %v\n", problem)
	}
}

// problemsOf takes joined errors apart.
func problemsOf(err error) []error {
	switch wrapped := err.(type) {
	case usageError:
		err = wrapped.error
	case verdict:
		err = wrapped.err
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var problems []error
	for _, e := range joined.Unwrap() {
		problems = append(problems, problemsOf(e)...)
	}
	return problems
}
