// Command edgebench compares the edge with nginx, HAProxy and Caddy.
//
//	go run ./test/bench/edgebench -only slipway,nginx -scenario h1
//
// It starts one backend, and then one proxy at a time with the same task: the
// same routes to the same backend, persistent connections on both sides,
// X-Forwarded-For and X-Forwarded-Proto set, no access log. Each proxy gets the
// same load, a short warm-up and a longer one that counts.
//
// The primary figure is the CPU time per request of all processes of the proxy:
// on a shared machine, requests per second depend more on the other load than
// on the proxy. The proxies take turns for several rounds, so that a
// disturbance does not affect a single one of them, and the report has the
// median of the rounds.
//
// Before it measures a proxy, it has verified a correct response from it.
// Errors under load are counted and end the program with exit code 1. It leaves
// neither processes nor files behind and uses loopback addresses only. If a
// program is missing, it fails with the name of the package to install.
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

// Exit codes. 130 is the shell's code for a process ended by SIGINT.
const (
	exitOK        = 0
	exitFailure   = 1 // a proxy did not start, or returned errors
	exitUsage     = 2
	exitInterrupt = 130
)

func main() {
	// Pdeathsig is bound to the thread that starts a child: the kernel signals
	// the children when it ends, so the main goroutine must keep its thread for
	// the lifetime of the program.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// execute is the program from the flags to the exit code. It does not exit
// itself, so that deferred cleanup runs and tests can call it.
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
	// The timeout ends a run that hangs, for example in a proxy that accepts
	// connections but does not respond.
	ctx, cancel := context.WithTimeout(ctx, settings.longest())
	defer cancel()
	result, err := measureAll(ctx, settings, tools, out)
	if result != nil {
		// An interrupted run still reports the scenarios that it has measured.
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

// measureAll runs every scenario in a temporary directory and removes it. With
// an error, the report contains the scenarios measured until then; it is nil
// only if nothing could start.
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
