// Command gitopsbench measures how `slipway agent` makes a cluster what Git
// says.
//
//	go run ./test/bench/gitopsbench -sizes 100,1000 -form kustomize
//
// For each number of Applications it starts a real API server without a node, in
// a private network, a Git server (git-http-backend) with one repository that
// has a folder for each of them, and an agent. An Application is a Deployment
// with no replicas, a ServiceAccount, a Service and an Ingress; it is synced and
// healed without being asked. Pushes are told by a signed webhook. The phases:
//
//   - install: the folders are pushed; until every Application is Synced;
//   - upgrade: one field of every Deployment is pushed; until all are Synced;
//   - settle: every Ingress gets an address; until every Application is Healthy;
//   - idle: nothing happens: requests and writes;
//   - one: a commit touches one of the folders: renders, requests, time;
//   - drift: somebody changes objects in the cluster; until they are repaired.
//
// Requests are those that the agent counts on its way to the API server. Memory
// is that of the agent and of the workers that render for it, together; the pages
// of their program, which they share, count once. The
// machine is shared by the agent, the API server with its database, the Git
// server and this program.
//
// It promises that every state is the one it waits for, or it fails; and that it
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

// Exit codes.
const (
	exitOK        = 0
	exitFailure   = 1 // something failed, or a goal was missed
	exitUsage     = 2
	exitInterrupt = 130
)

const program = "gitopsbench"

func main() { os.Exit(start(os.Args[1:], os.Stdout, os.Stderr)) }

// start reads the flags, and goes to the private network with them.
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
	result := newReport(s)
	fmt.Fprintln(out, result.heading())
	var err error
	for _, size := range s.sizes {
		f := &figures{Applications: size}
		result.Sizes = append(result.Sizes, f)
		if err = measure(ctx, s, f, out); err != nil {
			err = fmt.Errorf("%d Applications: %w", size, err)
			break
		}
	}
	// What was measured before an interruption is worth showing, too.
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

// measure sets everything up for one size, and goes through the phases.
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
	defer func() { err = errors.Join(err, agent.Stop(nil)) }()
	b := &bench{settings: s, world: w, agent: agent, out: out, figures: f}
	if err := b.run(ctx); err != nil {
		return fmt.Errorf("%w; the agent said: %s", err, agent.Said())
	}
	return nil
}

// wait lets time pass.
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
