// Command ingressbench measures how `slipway edge` follows a cluster with
// thousands of Ingresses.
//
//	go run ./test/bench/ingressbench -sizes 1000,5000 -tls
//
// It starts a real API server without a node, in a private network where every
// pod address is local, and fills it: each Ingress has its own host, one path,
// and a Service with one EndpointSlice whose single endpoint has a real
// listener. For each number of Ingresses it starts an edge and measures it in
// these phases, one after the other:
//
//   - cold: from the start of the process until it is ready and serves a sample
//     of random hosts;
//   - idle: memory, and the CPU time without changes or requests;
//   - create: from the call that creates an Ingress until its host is served;
//   - endpoint: from the call that moves a Service to another endpoint until
//     responses come from there;
//   - work: both again, without requests, for the CPU time of one change;
//   - load: CPU time of a request, of all hosts at random beside one of them,
//     and beside one host with as many endpoints;
//   - shared: the same for as many hosts that all have one endpoint.
//
// With -peer nginx, an nginx with as many hosts and endpoints gets these loads
// too, on the same addresses, which shows how much of the cost is the kernel's.
//
// A watch of the benchmark separates the delay of the API server from that of
// the edge: delays are reported from the call, and from the time at which that
// watch received the event.
//
// Every response must come from the right backend, or the run fails. The
// program leaves neither processes nor files behind, and no packet leaves the
// private network. It ends with exit code 1 when something fails or a goal is
// missed. On a shared machine, delays depend on the other load; CPU times and
// memory stay valid.
//
// See decision 0024 in docs/decisions: the cost of routes is measured where all
// else is equal.
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

	"slipway.dev/slipway/test/bench/ground"
)

// Exit codes. 130 is the shell's code for a process ended by SIGINT.
const (
	exitOK        = 0
	exitFailure   = 1 // something failed, or a goal was missed
	exitUsage     = 2
	exitInterrupt = 130
)

func main() { os.Exit(start(os.Args[1:], os.Stdout, os.Stderr)) }

// start parses the flags and re-executes the program in a private network.
// Flags are checked first, so that errors and -help need no privileges.
func start(args []string, out, complain io.Writer) int {
	s, err := parseSettings(args, complain)
	switch {
	case errors.Is(err, errHelp):
		return exitOK
	case err != nil:
		fmt.Fprintln(complain, "ingressbench:", err)
		return exitUsage
	}
	inside, err := ground.EnterNetwork()
	if err != nil {
		fmt.Fprintln(complain, "ingressbench:", err)
		return exitFailure
	}
	if !inside {
		return ground.RunInNetwork("ingressbench", complain)
	}
	// Pdeathsig is bound to the thread that starts a child: the kernel kills
	// the children when it ends, so the main goroutine must keep its thread for
	// the lifetime of the program.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return execute(ctx, s, out, complain)
}

// execute measures all sizes and returns the exit code.
func execute(ctx context.Context, s *settings, out, complain io.Writer) int {
	ctx, cancel := context.WithTimeout(ctx, s.longest())
	defer cancel()
	result, err := measureAll(ctx, s, out)
	// An interrupted run still reports the sizes that it has measured.
	err = errors.Join(err, result.deliver(out, s.jsonFile))
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		fmt.Fprintln(complain, "ingressbench: interrupted")
		return exitInterrupt
	case err != nil:
		fmt.Fprintln(complain, "ingressbench:", err)
		return exitFailure
	case result.missed() > 0:
		fmt.Fprintln(complain, "ingressbench: goals were missed; see above")
		return exitFailure
	}
	return exitOK
}

// measureAll grows one cluster through the sizes and measures a new edge at
// each. With an error, the report contains the results until then, including
// those of the size that failed.
func measureAll(ctx context.Context, s *settings, out io.Writer) (_ *report, err error) {
	result := newReport(s)
	fmt.Fprintln(out, result.heading())
	dir, err := os.MkdirTemp("", "ingressbench-")
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	backend, err := startBackend()
	if err != nil {
		return result, err
	}
	defer backend.stop()
	cluster, err := ground.StartCluster(ctx, s.devcluster, dir, "ingressbench")
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	w, err := newWorld(ctx, cluster, s)
	if err != nil {
		return result, err
	}
	for _, size := range s.sizes {
		b := &bench{settings: s, world: w, dir: dir, out: out, figures: &figures{Ingresses: size}}
		err := b.run(ctx)
		result.Sizes = append(result.Sizes, b.figures)
		if err != nil {
			return result, fmt.Errorf("%d Ingresses: %w", size, err)
		}
	}
	return result, nil
}
