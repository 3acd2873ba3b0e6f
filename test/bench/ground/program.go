package ground

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"slipway.dev/slipway/internal/kube/kubetest/privatenet"
)

// Exit codes of a benchmark. ExitInterrupt is the shell's code for a process
// ended by SIGINT.
const (
	ExitOK        = 0
	ExitFailure   = 1 // something failed, or a goal was missed
	ExitUsage     = 2
	ExitInterrupt = 130
)

// Program is a benchmark as a program: its settings come from flags.
type Program[Settings any] struct {
	// Name is the prefix of messages.
	Name string
	// Parse parses and validates the flags.
	Parse func(args []string, log io.Writer) (Settings, error)
	// Longest is the timeout of a run, which ends one that hangs; nil is none.
	Longest func(Settings) time.Duration
	// StartsProcesses is set by a benchmark that measures other processes.
	StartsProcesses bool
	// PrivateNetwork runs the program in a network namespace of its own.
	PrivateNetwork bool
	// Measure runs the benchmark and prints the report. A missed goal is an
	// error.
	Measure func(ctx context.Context, s Settings, out io.Writer) error
}

// Main runs the program and exits.
func (p Program[Settings]) Main() { os.Exit(p.Run(os.Args[1:], os.Stdout, os.Stderr)) }

// Run is the program from the flags to the exit code. Flags are checked first,
// so that errors and -help need no privileges. An interrupt takes precedence
// over the errors that it causes.
func (p Program[Settings]) Run(args []string, out, log io.Writer) int {
	fail := func(code int, why any) int {
		fmt.Fprintf(log, "%s: %v\n", p.Name, why)
		return code
	}
	s, err := p.Parse(args, log)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return ExitOK
	case err != nil:
		return fail(ExitUsage, err)
	}
	if p.PrivateNetwork {
		inside, err := privatenet.Enter()
		if err != nil {
			return fail(ExitFailure, err)
		}
		if !inside {
			return privatenet.Run(p.Name, log)
		}
	}
	// Pdeathsig is bound to the thread that starts a child: the kernel kills
	// the children when it ends, so the main goroutine must keep its thread for
	// the lifetime of the program.
	if p.StartsProcesses {
		runtime.LockOSThread()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if p.Longest != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.Longest(s))
		defer cancel()
	}
	err = p.Measure(ctx, s, out)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return fail(ExitInterrupt, "interrupted")
	case err != nil:
		return fail(ExitFailure, err)
	}
	return ExitOK
}

// ParseFlags parses the flags of a benchmark, which takes no other arguments.
// The flag package prints unknown flags and the usage.
func ParseFlags(flags *flag.FlagSet, args []string, log io.Writer) error {
	flags.SetOutput(log)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is not a flag; see -help", flags.Arg(0))
	}
	return nil
}

// ListVar declares a flag that may be given several times.
func ListVar(flags *flag.FlagSet, list *[]string, name, usage string) {
	flags.Func(name, usage+"; may be given several times", func(text string) error {
		*list = append(*list, text)
		return nil
	})
}

// ParseSizes parses the value of -sizes: numbers from 1 to most, with commas.
func ParseSizes(text string, most int) ([]int, error) {
	var sizes []int
	for part := range strings.SplitSeq(text, ",") {
		size, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || size < 1 || size > most {
			return nil, fmt.Errorf("-sizes: %q is not a number from 1 to %d", part, most)
		}
		sizes = append(sizes, size)
	}
	return sizes, nil
}
