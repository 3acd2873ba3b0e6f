// Command edgebench measures the edge beside nginx, HAProxy and Caddy.
//
//	go run ./test/bench/edgebench -only slipway,nginx -scenario h1
//
// It starts one backend, and then one proxy at a time with the same task: the
// same routes to the same backend, connections kept on both sides,
// X-Forwarded-For and X-Forwarded-Proto set, no access log. Each proxy gets the
// same load, a short one to warm up and a longer one that counts.
//
// The figure to look at is the CPU time per request of all processes of the
// proxy: on a machine that does other things as well, requests per second say
// more about those. The proxies take turns, several rounds of them, so that a
// disturbance does not meet one alone, and the median of the rounds is what is
// reported.
//
// It promises that before it measures a proxy it has seen the right answer from
// it, that an error in the answers is counted and ends the program with exit
// code 1, and that it leaves neither processes nor files behind. It talks to
// loopback addresses only. It refuses to guess where a program is missing, and
// says what to install.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// Exit codes.
const (
	exitOK        = 0
	exitFailure   = 1 // a proxy did not start, or gave wrong answers
	exitUsage     = 2
	exitInterrupt = 130
)

func main() {
	// Linux ends the children when the thread that started them ends, so this
	// one must last as long as the program.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// execute is the whole program, from the flags to the exit code.
func execute(ctx context.Context, args []string, out, complain io.Writer) int {
	settings, err := parseSettings(args, complain)
	switch {
	case errors.Is(err, errHelp):
		return exitOK
	case err != nil:
		fmt.Fprintln(complain, "edgebench:", err)
		return exitUsage
	}
	tools, err := findTools(ctx, settings)
	if err != nil {
		fmt.Fprintln(complain, "edgebench:", err)
		return exitFailure
	}
	ctx, cancel := context.WithTimeout(ctx, settings.longest())
	defer cancel()
	result, err := measureAll(ctx, settings, tools, out)
	if result != nil {
		// What was measured before an interruption is worth showing, too.
		err = errors.Join(err, result.deliver(out, settings.jsonFile))
	}
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		fmt.Fprintln(complain, "edgebench: interrupted")
		return exitInterrupt
	case err != nil:
		fmt.Fprintln(complain, "edgebench:", err)
		return exitFailure
	case result.failed():
		fmt.Fprintln(complain, "edgebench: a proxy failed or gave errors; see above")
		return exitFailure
	}
	return exitOK
}

// measureAll runs every scenario in a folder of its own that is gone afterwards.
// With an error, the report has what was measured until then.
func measureAll(ctx context.Context, s *settings, found *tools, out io.Writer) (*report, error) {
	dir, err := openDir("", "edgebench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	who, err := newIdentity(dir)
	if err != nil {
		return nil, err
	}
	result := newReport(s, found)
	fmt.Fprintln(out, result.heading())
	for _, sc := range s.scenarios {
		b := &bench{settings: s, scenario: sc, identity: who, dir: dir, out: out}
		measured, err := b.run(ctx)
		result.Scenarios = append(result.Scenarios, measured)
		result.Took = time.Since(result.Began).Round(time.Second).String()
		if err != nil {
			return result, fmt.Errorf("scenario %s: %w", sc.name, err)
		}
	}
	return result, nil
}
