package cli

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/kube"
)

// Main runs the command line of the process and returns the exit code. The
// first SIGINT or SIGTERM cancels the command's context, so that it shuts down
// gracefully; a second one exits at once.
func Main() int {
	// Libraries log to these by default, and their lines would appear between
	// those of a command. Roles have loggers of their own.
	quiet := slog.New(slog.DiscardHandler)
	slog.SetDefault(quiet)
	kube.LogTo(quiet)
	return runProcess(Execute)
}

// runProcess runs a command line under the signals of the process. Tests pass
// an execute of their own.
func runProcess(execute func(ctx context.Context, args []string, stdout, stderr io.Writer) int) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// Room for both signals: signal.Notify drops a signal when the channel is
	// full.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	// The goroutine lives until the process ends; a command that completes
	// leaves it blocked on the channel.
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(exit.Interrupt)
	}()
	return execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
}
