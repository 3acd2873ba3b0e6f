// Package upcmd is the command slipway up, which runs everything on this
// machine. The work is in internal/up; this package has the flags and the
// signals.
package upcmd

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/buildinfo"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/up"
)

// Command returns the command slipway up. It stays in the foreground and owns
// all processes that it starts.
func Command() *cobra.Command {
	var options up.Options
	output := "table"
	command := &cobra.Command{
		Use:   "up",
		Short: "Run everything on this machine: a Kubernetes cluster, a Git repository, the agent, the edge and a demo",
		Long: `Starts a development cluster, a Git server with a demo, the platform, an agent
that deploys the demo as a runtime of the platform, and an edge that serves its
Ingress; waits until they are ready, prints their addresses, and runs until
Ctrl-C. It needs neither Docker nor root. A second Ctrl-C kills what does not
stop.

The state is kept from one run to the next. The demo follows its Git
repository: clone it, change it and push. The runtime has a Shared Configuration
Repository, Git credentials and a Git Source. The repositories and the
Application are created at the first start only; --reset creates them again.`,
		Example: `  slipway up
  slipway up --reset
  slipway up --dir ~/slipway-second --port-offset 100
  slipway up --output json | head -n 1`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			// With JSON, standard output has one line of JSON and progress goes
			// to standard error.
			out, progress := command.OutOrStdout(), command.OutOrStdout()
			switch output {
			case "table":
			case "json":
				options.JSON = true
				progress = command.ErrOrStderr()
			default:
				return exit.UsageError{Err: fmt.Errorf("--output %q is neither table nor json", output)}
			}
			// All components run in the version of this program.
			options.Version = buildinfo.Read().Version
			ctx, killNow, release := takeSignals(command.Context())
			defer release()
			return up.Run(ctx, options, up.UI{
				Out: out, Progress: progress, Width: printer.TerminalWidth(progress), KillNow: killNow,
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&options.Dir, "dir", "", "directory for the state (default $XDG_DATA_HOME/slipway or ~/.local/share/slipway)")
	flags.BoolVar(&options.Reset, "reset", false, "delete the state of earlier runs first")
	flags.IntVar(&options.PortOffset, "port-offset", 0, "number to add to each fixed port (API server 6443, edge 8080, 8443, 8000, 8082, 8090 and 8093, agent 8083, 8084 and 8091, Git 8085), to run two side by side")
	flags.DurationVar(&options.Timeout, "timeout", up.DefaultTimeout, "give up when not everything is ready after this time")
	flags.StringVar(&output, "output", output, "what to print when everything is up: table, or json for scripts, with progress on standard error")
	return command
}

// signalPause is the time after the first signal during which further ones
// count as the same: some supervisors signal the process and again its group.
const signalPause = 300 * time.Millisecond

// takeSignals returns a context that the first SIGINT or SIGTERM cancels, and a
// channel that the second one closes. The root command would exit at the second
// signal; up has child processes to kill first, so it takes the signals over
// until release is called.
func takeSignals(parent context.Context) (ctx context.Context, again <-chan struct{}, release func()) {
	ctx, cancel := context.WithCancel(parent)
	// The buffer of one keeps a signal that arrives before the goroutine runs.
	signals := make(chan os.Signal, 1)
	// Reset removes the handlers of the root command for these signals.
	signal.Reset(syscall.SIGINT, syscall.SIGTERM)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	released, ended, second := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		var first time.Time
		// The goroutine ends at the second signal, or when release is called.
		for {
			select {
			case <-signals:
			case <-released:
				return
			}
			switch {
			case first.IsZero():
				first = time.Now()
				cancel()
			case time.Since(first) > signalPause:
				close(second)
				return
			}
		}
	}()
	return ctx, second, func() {
		close(released)
		// release waits for the goroutine, so that no signal closes second
		// afterwards.
		<-ended
		signal.Stop(signals)
		cancel()
	}
}
