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
	"io"

	"slipway.dev/slipway/test/bench/ground"
)

// program is the benchmark as a program.
var program = ground.Program[settings]{Name: "tunnelbench", Parse: parseSettings, Measure: run}

func main() { program.Main() }

// settings holds the parsed flags.
type settings struct {
	megabytes, streams, requests, rounds int
	secure                               bool
	jsonFile                             string
}

// parseSettings parses and validates the flags. The minimum of 100 requests
// makes the 99th percentile a sample of its own.
func parseSettings(args []string, log io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("tunnelbench", flag.ContinueOnError)
	flags.IntVar(&s.megabytes, "megabytes", 1024, "how much goes through in one measurement of throughput")
	flags.IntVar(&s.streams, "streams", 16, "how many streams at a time")
	flags.IntVar(&s.requests, "requests", 10_000, "how many small requests in one measurement")
	flags.IntVar(&s.rounds, "rounds", 3, "how often everything is measured")
	flags.BoolVar(&s.secure, "tls", true, "use TLS, to the hub and to the direct server")
	flags.StringVar(&s.jsonFile, "json", "", "write everything that was measured to this `file` too")
	switch err := ground.ParseFlags(flags, args, log); {
	case err != nil:
		return s, err
	case s.megabytes < 1 || s.streams < 1 || s.requests < max(100, s.streams) || s.rounds < 1:
		return s, errors.New("-megabytes, -streams and -rounds are at least 1, and -requests at least 100 and at least -streams")
	}
	return s, nil
}

// run measures everything and prints the report.
func run(ctx context.Context, s settings, out io.Writer) error {
	result, err := measure(ctx, s)
	if err != nil {
		return err
	}
	return result.deliver(out, s.jsonFile)
}
