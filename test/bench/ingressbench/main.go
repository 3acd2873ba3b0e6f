// Command ingressbench measures how `slipway edge` follows a cluster with
// thousands of Ingresses.
//
//	go run ./test/bench/ingressbench -sizes 1000,5000 -tls
//
// It starts a real API server without a node, in a private network where every
// Pod address is local, and fills it: each Ingress has a host of its own, one
// path, and a Service with one EndpointSlice whose one endpoint really answers.
// For each number of Ingresses it starts an edge and measures it in these
// phases, one after the other:
//
//   - cold: from the start of the process until it is ready and a sample of
//     random hosts answers;
//   - idle: memory, and the CPU time that it uses when nothing happens;
//   - create: from the call that creates an Ingress until its host answers;
//   - endpoint: from the call that moves a Service to another endpoint until the
//     answer comes from there;
//   - both again, without anybody asking, for the CPU time of one change;
//   - load: CPU time of a request, of all hosts at random beside one of them,
//     and beside one host with as many endpoints;
//   - shared: the same for as many hosts that all have one endpoint.
//
// With -peer nginx, an nginx with as many hosts and endpoints gets these loads
// too, on the same addresses, which tells how much of them is the kernel's.
//
// A watch of its own tells how much of a delay is the API server's: it is given
// from the call, and from the moment at which that watch had the event.
//
// It promises that every answer comes from the right backend, or it fails; that
// it leaves neither processes nor files behind; and that no packet leaves the
// private network. It ends with exit code 1 when something fails or a goal is
// missed. On a machine that does other things as well, delays say more about
// those; CPU times and memory stay true.
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

// Exit codes.
const (
	exitOK        = 0
	exitFailure   = 1 // something failed, or a goal was missed
	exitUsage     = 2
	exitInterrupt = 130
)

func main() { os.Exit(start(os.Args[1:], os.Stdout, os.Stderr)) }

// start reads the flags, and goes to the private network with them.
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
	// Linux ends the children when the thread that started them ends, so this
	// one must last as long as the program.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return execute(ctx, s, out, complain)
}

// execute measures everything, and gives the exit code.
func execute(ctx context.Context, s *settings, out, complain io.Writer) int {
	ctx, cancel := context.WithTimeout(ctx, s.longest())
	defer cancel()
	result, err := measureAll(ctx, s, out)
	// What was measured before an interruption is worth showing, too.
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

// measureAll lets one cluster grow, and measures an edge at each size. With an
// error, the report has what was measured until then.
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
