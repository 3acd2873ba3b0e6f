// Command gitopsbench measures how `slipway agent` reconciles a cluster with
// Git.
//
//	go run ./test/bench/gitopsbench -sizes 100,1000 -form kustomize
//
// For each number of Applications it starts a real API server without a node,
// in a private network, a Git server (git-http-backend) with one repository
// that has a folder for each of them, and an agent, or with -agents several that divide the
// Applications: -agents 1,2 measures both, and compares them. An Application is a
// Deployment with no replicas, a ServiceAccount, a Service and an Ingress, with
// automated sync and self-heal. With -form umbrella the folders are 50 charts that
// depend on charts of a Helm repository, and each Application has a value file.
// Pushes are announced by a signed webhook. The phases:
//
//   - install: the folders are pushed; until every Application is Synced;
//   - upgrade: a new pod template of every Deployment is pushed; until all
//     are Synced;
//   - settle: every Ingress gets an address; until every Application is Healthy;
//   - idle: nothing happens: requests and writes;
//   - one: a commit touches one of the folders: renders, requests, time;
//   - drift: objects in the cluster are changed; until they are repaired;
//   - alone: a client that does nothing else makes the writes of install in a new
//     cluster, as many at a time as the agent: what the API server takes for them.
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

	"slipway.dev/slipway/test/bench/ground"
)

// name is the name in messages, the client name in the API server's logs, and
// the field manager of the definitions.
const name = "gitopsbench"

func main() {
	ground.Program[*settings]{Name: name, Parse: parseSettings, Longest: (*settings).longest, StartsProcesses: true, PrivateNetwork: true, Measure: measureAll}.Main()
}

// measureAll measures all sizes and prints the report. The first failure ends
// the run; an interrupted run still reports the phases that it has measured.
func measureAll(ctx context.Context, s *settings, out io.Writer) error {
	result := newReport(s)
	fmt.Fprintln(out, ground.Heading(result.Machine, result.Setting))
	var err error
	for _, size := range s.sizes {
		if err = measureSize(ctx, s, size, result, out); err != nil {
			err = fmt.Errorf("%d Applications: %w", size, err)
			break
		}
	}
	result.print(out)
	return ground.Finish(err, s.JSONFile, result, result.decisions())
}

// measureSize measures one size with each number of agents, each in a cluster of its own,
// so that no run finds what another has installed.
func measureSize(ctx context.Context, s *settings, size int, into *report, out io.Writer) error {
	var first *figures
	for _, agents := range s.agents {
		f := &figures{Applications: size, Agents: agents, first: first}
		// The entry is added before the measurement, so that the report has the phases of a
		// run that fails.
		into.Sizes = append(into.Sizes, f)
		if err := measure(ctx, s, f, out); err != nil {
			return err
		}
		if first != nil {
			f.Alone = first.Alone // the writes are the same
			continue
		}
		first = f
		if s.alone {
			if err := measureAlone(ctx, s, f, out); err != nil {
				return err
			}
		}
	}
	return nil
}

// measure sets up a new repository, cluster and agent for one size and runs the
// phases. Deferred calls stop them in reverse order: the agent ends before its
// API server does.
func measure(ctx context.Context, s *settings, f *figures, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", name+"-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	repository, err := serveRepository(dir)
	if err != nil {
		return err
	}
	defer repository.close()
	cluster, err := ground.StartCluster(ctx, s.Devcluster, dir, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	w, err := newWorld(ctx, cluster, repository, s.form, f.Applications)
	if err != nil {
		return err
	}
	agent, err := startAgent(s, f.Agents, cluster, dir)
	if err != nil {
		return err
	}
	// An agent that does not stop within its grace period fails the run.
	defer func() { err = errors.Join(err, agent.endAll()) }()
	profiles := ground.Profiles{Folder: s.Profile, Size: f.Applications, Admin: adminAddress, Process: agent.Process}
	b := &bench{settings: s, world: w, agent: agent, profiles: profiles, out: out, figures: f}
	if err := b.run(ctx); err != nil {
		return fmt.Errorf("%w; the agent's output: %s", err, agent.Output())
	}
	return nil
}
