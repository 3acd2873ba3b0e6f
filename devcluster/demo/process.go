package demo

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const (
	// exitUsage is the exit code for invalid flags or listen addresses.
	exitUsage = 2

	// drainTimeout is how long SIGTERM waits for running requests. It is well
	// below the 30 s after which a Pod is killed.
	drainTimeout = 10 * time.Second

	// crashTimeout is how long POST /exit waits for its own response to be
	// sent.
	crashTimeout = 500 * time.Millisecond
)

// Main runs the server process until it ends, and returns its exit code. args
// are the arguments after demo-echo: the container's args.
//
// Standard input ties the process to its parent: at EOF Main ends the process,
// without returning. The states are
//
//	delayed    --start-delay has not passed; nothing listens
//	serving    until SIGTERM, SIGINT, --exit-after or POST /exit
//	draining   after a signal: not ready, running requests finish; ends with 0
func Main(args []string) int {
	opts, err := parseFlags(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Print(usage())
		return 0
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n%s", command, err, usage())
		return exitUsage
	}
	sockets, err := parseListen(os.Getenv(envListen))
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", command, err)
		return exitUsage
	}
	fault, err := newFault(os.Getenv)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", command, err)
		return exitUsage
	}
	// In a goroutine of its own, outside the select loop: a log write that
	// blocks, because the reader is gone, must not keep an orphan alive.
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	code, err := run(opts, fault, sockets)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", command, err)
		return 1
	}
	return code
}

// run serves until a signal, a crash or an error of a listener, and returns the
// exit code.
func run(opts options, fault *fault, sockets []socket) (int, error) {
	log := slog.New(slog.NewTextHandler(os.Stdout, nil))
	self := identify(os.Getenv)

	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(stop)
	crash := after(opts.exitAfter)
	// After Notify: a test that waits for this line may then send a signal.
	log.Info("starting", "name", self.name, "version", self.version, "colour", self.colour, "pid", os.Getpid())

	// Signals and crashes work during the delay too: it simulates a slow start,
	// not a hung process.
	if opts.startDelay > 0 {
		select {
		case <-time.After(opts.startDelay):
		case got := <-stop:
			log.Info("stopped before listening", "signal", got)
			return 0, nil
		case <-crash:
			log.Error("crashing", "after", opts.exitAfter, "code", opts.exitCode)
			return opts.exitCode, nil
		}
	}

	listeners, err := listenAll(context.Background(), sockets)
	if err != nil {
		return 0, err
	}
	s := newServer(self, opts, fault, log)
	failed := s.serve(listeners)

	// A nil channel blocks forever, so no lines are written without
	// --log-every.
	var lines <-chan time.Time
	if opts.logEvery > 0 {
		ticker := time.NewTicker(opts.logEvery)
		defer ticker.Stop()
		lines = ticker.C
	}
	for n := 1; ; {
		select {
		case <-lines:
			log.Info("still here", "line", n)
			n++
		case <-crash:
			log.Error("crashing", "after", opts.exitAfter, "code", opts.exitCode)
			return opts.exitCode, nil
		case code := <-s.exit:
			s.close(crashTimeout)
			log.Error("crashing", "code", code)
			return code, nil
		case err := <-failed:
			return 0, err
		case got := <-stop:
			// Before the drain: readiness must fail first, so that no new
			// traffic arrives.
			s.stopping.Store(true)
			log.Info("draining", "signal", got, "timeout", drainTimeout)
			finished := s.drain(drainTimeout, opts.drainDelay)
			log.Info("stopped", "finished", finished)
			return 0, nil
		}
	}
}

// after is time.After, except that zero means never.
func after(d time.Duration) <-chan time.Time {
	if d <= 0 {
		return nil
	}
	return time.After(d)
}

// options are the container's args. They make a Pod misbehave on purpose, for
// demonstrations and tests of rollouts.
type options struct {
	startDelay time.Duration
	exitAfter  time.Duration
	exitCode   int
	notReady   bool
	logEvery   time.Duration
	drainDelay time.Duration
}

// flags returns the flag set that writes into o. ContinueOnError leaves the
// exit code to Main.
func (o *options) flags() *flag.FlagSet {
	set := flag.NewFlagSet(command, flag.ContinueOnError)
	set.SetOutput(io.Discard) // Main prints errors and usage, once
	set.DurationVar(&o.startDelay, "start-delay", 0, "wait this `duration` before listening")
	set.DurationVar(&o.exitAfter, "exit-after", 0, "crash after this `duration`; 0 means never")
	set.IntVar(&o.exitCode, "exit-code", 1, "exit `code` of a crash")
	set.BoolVar(&o.notReady, "not-ready", false, "start not ready; POST /ready changes it")
	set.DurationVar(&o.logEvery, "log-every", 0, "write a log line each `duration`; 0 means none")
	set.DurationVar(&o.drainDelay, "drain-delay", 0, "keep accepting connections for this `duration` after SIGTERM")
	return set
}

// parseFlags parses and validates the container's args. The error reaches the
// user through the container's log.
func parseFlags(args []string) (options, error) {
	var o options
	set := o.flags()
	if err := set.Parse(args); err != nil {
		return o, err
	}
	if set.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q: only flags are accepted", set.Arg(0))
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"start-delay", o.startDelay}, {"exit-after", o.exitAfter},
		{"log-every", o.logEvery}, {"drain-delay", o.drainDelay},
	} {
		if d.value < 0 {
			return o, fmt.Errorf("--%s must not be negative, got %s", d.name, d.value)
		}
	}
	if o.exitCode < 0 || o.exitCode > 255 {
		return o, fmt.Errorf("--exit-code must be from 0 to 255, got %d", o.exitCode)
	}
	// Delay and drain together must end before the Pod's default grace period
	// of 30 s does.
	if o.drainDelay > drainTimeout {
		return o, fmt.Errorf("--drain-delay must not be over %s, got %s", drainTimeout, o.drainDelay)
	}
	return o, nil
}

// usage returns the help text of all flags. flag's own PrintDefaults shows them
// with one dash.
func usage() string {
	var o options
	text := "Flags of " + command + ":\n"
	o.flags().VisitAll(func(f *flag.Flag) {
		name, help := flag.UnquoteUsage(f)
		text += fmt.Sprintf("  --%-24s %s (default %s)\n", f.Name+" "+name, help, f.DefValue)
	})
	return text
}
