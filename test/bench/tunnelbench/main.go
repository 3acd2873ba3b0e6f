// Command tunnelbench measures the overhead of the tunnel.
//
//	go run ./test/bench/tunnelbench -megabytes 1024 -requests 20000
//
// It runs a hub and an agent with one connection over loopback, and beside them
// a server that clients reach directly, with the same handler and the same TLS.
// Each round sends requests to both, one after the other, so that both see the
// same state of the machine:
//
//   - one stream: a body that is read as fast as it comes;
//   - many streams: the same number of bytes in several concurrent bodies;
//   - latency: small requests one after the other;
//   - load: concurrent small requests, and the CPU time of each.
//
// CPU time is that of the whole process: the client, the hub, the agent and the
// handler. The ratio to the direct server, which includes the client and the
// handler too, is comparable between machines. Figures are medians of the
// rounds.
//
// Every response body must have the expected length; otherwise the program
// fails with exit code 1. Nothing outlives it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// program is the prefix of messages and the name of the flag set.
const program = "tunnelbench"

// Exit codes. 130 is the shell's code for a process ended by SIGINT.
const (
	exitOK        = 0
	exitFailure   = 1
	exitUsage     = 2
	exitInterrupt = 130
)

func main() { os.Exit(start(os.Args[1:], os.Stdout, os.Stderr)) }

// settings holds the parsed flags.
type settings struct {
	megabytes, streams, requests, rounds int
	secure                               bool
	jsonFile                             string
}

// parseSettings parses and validates the flags. The minimum of 100 requests
// makes the 99th percentile a sample of its own.
func parseSettings(args []string, complain io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet(program, flag.ContinueOnError)
	flags.SetOutput(complain)
	flags.IntVar(&s.megabytes, "megabytes", 1024, "how much goes through in one measurement of throughput")
	flags.IntVar(&s.streams, "streams", 16, "how many streams at a time")
	flags.IntVar(&s.requests, "requests", 10_000, "how many small requests in one measurement")
	flags.IntVar(&s.rounds, "rounds", 3, "how often everything is measured")
	flags.BoolVar(&s.secure, "tls", true, "use TLS, to the hub and to the direct server")
	flags.StringVar(&s.jsonFile, "json", "", "write everything that was measured to this `file` too")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	switch {
	case flags.NArg() > 0:
		return s, fmt.Errorf("%q is not a flag; see -help", flags.Arg(0))
	case s.megabytes < 1 || s.streams < 1 || s.requests < 100 || s.rounds < 1:
		return s, errors.New("-megabytes, -streams and -rounds are at least 1, and -requests at least 100")
	}
	return s, nil
}

// start parses the flags, runs the measurement and returns the exit code. An
// interrupt takes precedence over the errors that it causes.
func start(args []string, out, complain io.Writer) int {
	s, err := parseSettings(args, complain)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintln(complain, program+":", err)
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	result, err := measure(ctx, s)
	if err == nil {
		err = result.deliver(out, s.jsonFile)
	}
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(complain, program+": interrupted")
		return exitInterrupt
	case err != nil:
		fmt.Fprintln(complain, program+":", err)
		return exitFailure
	}
	return exitOK
}
