// Package cli is the command line of the program: the command tree, the wiring
// of the command groups, and the generated reference.
//
// A command exits with 0 on success, 1 on failure, and 2 when the command line
// or the configuration is wrong. Messages for people go to standard error and
// results to standard output. A command is listed only when it does its work.
// Cancelling the context shuts every command down gracefully.
//
// cmd/slipway is its only caller.
//
// See decision 0026 in docs/decisions: the command line by command group.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"slipway.dev/slipway/api/declare"
	"slipway.dev/slipway/internal/cli/accountcmd"
	"slipway.dev/slipway/internal/cli/agentcmd"
	"slipway.dev/slipway/internal/cli/appcmd"
	"slipway.dev/slipway/internal/cli/clustercmd"
	"slipway.dev/slipway/internal/cli/diagnosecmd"
	"slipway.dev/slipway/internal/cli/edgecmd"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/gitcmd"
	"slipway.dev/slipway/internal/cli/historycmd"
	"slipway.dev/slipway/internal/cli/installcmd"
	"slipway.dev/slipway/internal/cli/migratecmd"
	"slipway.dev/slipway/internal/cli/notifycmd"
	"slipway.dev/slipway/internal/cli/platformcmd"
	"slipway.dev/slipway/internal/cli/promotecmd"
	"slipway.dev/slipway/internal/cli/rendercmd"
	"slipway.dev/slipway/internal/cli/rolloutcmd"
	"slipway.dev/slipway/internal/cli/runtimecmd"
	"slipway.dev/slipway/internal/cli/upcmd"
	"slipway.dev/slipway/internal/controller"
	"slipway.dev/slipway/internal/observe"
)

// Execute runs one command line and returns the exit code. It installs no
// signal handlers and never exits the process, so that tests can call it;
// cancelling ctx ends the command.
func Execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return program{runEdge: controller.Run}.execute(ctx, args, stdout, stderr)
}

// program is the command line with its replaceable part: tests substitute
// runEdge, which slipway edge calls once its options are valid.
type program struct {
	runEdge controller.Runner
}

// root assembles the command tree. Only this function imports the command
// groups, so the groups never depend on each other through the root. Each call
// returns a new tree: cobra keeps the parsed flags in it.
func (p program) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "slipway",
		Short: "GitOps runtime and ingress controller for Kubernetes",
		Long: `Slipway deploys applications from Git to Kubernetes and serves their traffic: a
GitOps runtime and an ingress controller in one program.`,
		SilenceErrors: true, // execute prints them and maps them to an exit code
		SilenceUsage:  true,
		PersistentPreRunE: func(command *cobra.Command, _ []string) error {
			return checkLogFlags(command)
		},
	}
	root.SetFlagErrorFunc(suggestFlag)
	root.PersistentFlags().String("log.level", "info", "minimum severity of log messages: debug, info, warn, error")
	root.PersistentFlags().String("log.format", "auto", "format of log messages: text, json, or auto (text on a terminal)")
	root.AddCommand(
		edgecmd.Command(p.runEdge),
		agentcmd.Command(),
		platformcmd.Command(),
		accountcmd.Login(),
		accountcmd.Logout(),
		accountcmd.Whoami(),
		accountcmd.Config(),
		runtimecmd.Command(),
		appcmd.Command(),
		rolloutcmd.Command(),
		promotecmd.Command(),
		historycmd.Command(),
		notifycmd.Command(),
		gitcmd.Source(),
		gitcmd.Integration(),
		clustercmd.Command(),
		installcmd.Helm(),
		installcmd.CRDs(),
		installcmd.Images(),
		migratecmd.Command(),
		accountcmd.Account(),
		accountcmd.APIKey(),
		accountcmd.Audit(),
		diagnosecmd.Doctor(),
		diagnosecmd.Preflight(),
		rendercmd.Command(),
		rendercmd.Worker(),
		diagnosecmd.Explain(),
		diagnosecmd.Lint(),
		upcmd.Command(),
		versionCommand(),
		docsCommand(),
	)
	for _, command := range root.Commands() {
		showHelpOfGroups(command)
	}
	onLinuxOnly(root, runtime.GOOS)
	return root
}

// onLinuxOnly makes the commands that run a server fail at once on another
// system, which they are neither written nor tested for: they depend on cgroups,
// seccomp and on how Linux ends child processes. Their help works everywhere, and
// so do all other commands.
func onLinuxOnly(root *cobra.Command, system string) {
	if system == "linux" {
		return
	}
	for _, command := range root.Commands() {
		if !slices.Contains([]string{"edge", "agent", "platform", "up"}, command.Name()) {
			continue
		}
		run := command.RunE
		command.RunE = func(command *cobra.Command, args []string) error {
			// The roles parse their own flags.
			if slices.Contains(args, "--help") || slices.Contains(args, "-h") {
				return run(command, args)
			}
			return fmt.Errorf("%s runs on Linux only, and this is %s: here the program is a client of platforms, runtimes and clusters", command.CommandPath(), system)
		}
	}
}

// showHelpOfGroups makes a command that only has subcommands print its help,
// and refuse an unknown subcommand, which cobra would ignore.
func showHelpOfGroups(command *cobra.Command) {
	if command.HasSubCommands() && !command.Runnable() {
		command.Args = cobra.NoArgs
		command.RunE = func(command *cobra.Command, _ []string) error { return command.Help() }
	}
	for _, below := range command.Commands() {
		showHelpOfGroups(below)
	}
}

// checkLogFlags refuses a log level or format that does not exist, also for
// commands that log nothing: a typo should not pass. Roles are skipped: they
// parse the log flags among their own options and validate them there.
func checkLogFlags(command *cobra.Command) error {
	if command.DisableFlagParsing {
		return nil
	}
	level, _ := command.Flags().GetString("log.level")
	format, _ := command.Flags().GetString("log.format")
	if _, err := observe.NewLogger(io.Discard, level, format); err != nil {
		return exit.UsageError{Err: err}
	}
	return nil
}

// suggestFlag adds the nearest flag to the error for an unknown one. Cobra
// suggests commands only.
func suggestFlag(command *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	var names []string
	command.Flags().VisitAll(func(flag *pflag.Flag) { names = append(names, flag.Name) })
	if near := declare.Nearest(unknown.GetSpecifiedName(), names); near != "" {
		return fmt.Errorf("%w: did you mean --%s?", err, near)
	}
	return err
}

// execute runs a command line, prints its error once, and maps the error to an
// exit code. Errors of parsing and UsageError give exit.Usage, a Status gives
// its own code, and every other error gives exit.Failure.
func (p program) execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := p.root()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	// Errors before a command starts come from cobra and are about the command
	// line. Cobra has no type for them, so the hook that runs first records
	// that the command was reached.
	started := false
	check := root.PersistentPreRunE
	root.PersistentPreRunE = func(command *cobra.Command, args []string) error {
		started = true
		return check(command, args)
	}

	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exit.OK
	}
	// A Status without an error is a result, such as a diff that found
	// differences: the command has printed it already.
	if status := (exit.Status{}); !errors.As(err, &status) || status.Err != nil {
		exit.Print(stderr, err)
	}
	if !started {
		_, _ = fmt.Fprintf(stderr, "Run '%s --help' for usage.\n", command.CommandPath())
		return exit.Usage
	}
	if usage := (exit.UsageError{}); errors.As(err, &usage) {
		return exit.Usage
	}
	if status := (exit.Status{}); errors.As(err, &status) {
		return status.Code
	}
	return exit.Failure
}
