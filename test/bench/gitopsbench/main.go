// Command gitopsbench measures how `slipway agent` reconciles a cluster with
// Git.
//
//	go run ./test/bench/gitopsbench -sizes 100,1000 -form kustomize
//
// For each number of Applications it starts a real API server without a node,
// in a private network, a Git server (git-http-backend) with one repository
// that has a folder for each of them, and an agent. An Application is a
// Deployment with no replicas, a ServiceAccount, a Service and an Ingress, with
// automated sync and self-heal. Pushes are announced by a signed webhook. The
// phases:
//
//   - install: the folders are pushed; until every Application is Synced;
//   - upgrade: a new pod template of every Deployment is pushed; until all
//     are Synced;
//   - settle: every Ingress gets an address; until every Application is Healthy;
//   - idle: nothing happens: requests and writes;
//   - one: a commit touches one of the folders: renders, requests, time;
//   - drift: objects in the cluster are changed; until they are repaired.
//
// Requests are those that the agent counts on its way to the API server. Memory
// is the sum for the agent and its render workers; the pages of their
// executable, which they share, count once. The agent, the API server with its
// database, the Git server and this program share the machine.
//
// Every phase verifies the state that it waits for, or fails. The program
// leaves neither processes nor files behind. It ends with exit code 1 when
// something fails or a goal is missed.
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

	"slipway.dev/slipway/test/bench/ground"
)

// Exit codes. 130 is the shell's code for a process ended by SIGINT.
const (
	exitOK        = 0
	exitFailure   = 1 // something failed, or a goal was missed
	exitUsage     = 2
	exitInterrupt = 130
)

// program is the name in messages, the client name in the API server's logs,
// and the field manager of the definitions.
const program = "gitopsbench"

func main() { os.Exit(start(os.Args[1:], os.Stdout, os.Stderr)) }

// start parses the flags and re-executes the program in a private network.
// Flags are checked first, so that errors and -help need no privileges.
func start(args []string, out, complain io.Writer) int {
	s, err := parseSettings(args, complain)
	switch {
	case errors.Is(err, errHelp):
		return exitOK
	case err != nil:
		fmt.Fprintln(complain, program+":", err)
		return exitUsage
	}
	inside, err := ground.EnterNetwork()
	if err != nil {
		fmt.Fprintln(complain, program+":", err)
		return exitFailure
	}
	if !inside {
		return ground.RunInNetwork(program, complain)
	}
	// Pdeathsig is bound to the thread that starts a child: the kernel kills
	// the children when it ends, so the main goroutine must keep its thread for
	// the lifetime of the program.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return execute(ctx, s, out, complain)
}

// execute measures all sizes and returns the exit code. The first failure ends
// the run.
func execute(ctx context.Context, s *settings, out, complain io.Writer) int {
	ctx, cancel := context.WithTimeout(ctx, s.longest())
	defer cancel()
	result := newReport(s)
	fmt.Fprintln(out, result.heading())
	var err error
	// The entry is added before the measurement, so that the report has the
	// phases of a size that fails.
	for _, size := range s.sizes {
		f := &figures{Applications: size}
		result.Sizes = append(result.Sizes, f)
		if err = measure(ctx, s, f, out); err != nil {
			err = fmt.Errorf("%d Applications: %w", size, err)
			break
		}
	}
	// An interrupted run still reports the phases that it has measured.
	err = errors.Join(err, result.deliver(out, s.jsonFile))
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		fmt.Fprintln(complain, program+": interrupted")
		return exitInterrupt
	case err != nil:
		fmt.Fprintln(complain, program+":", err)
		return exitFailure
	case result.missed() > 0:
		fmt.Fprintln(complain, program+": goals were missed; see above")
		return exitFailure
	}
	return exitOK
}

// measure sets up a new repository, cluster and agent for one size and runs the
// phases. Deferred calls stop them in reverse order: the agent ends before its
// API server does.
func measure(ctx context.Context, s *settings, f *figures, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", program+"-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	repository, err := serveRepository(dir)
	if err != nil {
		return err
	}
	defer repository.close()
	cluster, err := ground.StartCluster(ctx, s.devcluster, dir, program)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	w, err := newWorld(ctx, cluster, repository, f.Applications)
	if err != nil {
		return err
	}
	agent, err := startAgent(s, cluster, dir)
	if err != nil {
		return err
	}
	// An agent that does not stop within its grace period fails the run.
	defer func() { err = errors.Join(err, agent.Stop(nil)) }()
	b := &bench{settings: s, world: w, agent: agent, out: out, figures: f}
	if err := b.run(ctx); err != nil {
		return fmt.Errorf("%w; the agent said: %s", err, agent.Said())
	}
	return nil
}

// wait sleeps for length, or returns the cause when ctx is done.
func wait(ctx context.Context, length time.Duration) error {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
