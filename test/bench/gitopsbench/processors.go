package main

import (
	"fmt"
	"os"
	"time"

	"slipway.dev/slipway/test/bench/ground"
)

// processorTime is what those who share the machine have used of it.
type processorTime struct {
	agent, workers time.Duration
	// cluster is the API server with its database and the controllers.
	cluster time.Duration
	// bench is this program, and git the Git server that it starts.
	bench, git time.Duration
}

func readProcessorTime(agent, cluster int) (processorTime, error) {
	var p processorTime
	var err error
	if p.agent, err = ground.CPUTime(agent); err != nil {
		return p, err
	}
	if p.workers, err = ground.ChildrenCPUTime(agent); err != nil {
		return p, err
	}
	if p.cluster, err = ground.CPUTime(cluster); err != nil {
		return p, err
	}
	if p.bench, err = ground.CPUTime(os.Getpid()); err != nil {
		return p, err
	}
	// The agent and the cluster are children of this program, too.
	all, err := ground.ChildrenCPUTime(os.Getpid())
	p.git = max(0, all-p.agent-p.workers-p.cluster)
	return p, err
}

func (p processorTime) since(before processorTime) processorTime {
	return processorTime{
		agent: p.agent - before.agent, workers: p.workers - before.workers, cluster: p.cluster - before.cluster,
		bench: p.bench - before.bench, git: p.git - before.git,
	}
}

func (p processorTime) String() string {
	return fmt.Sprintf("agent %.1f s, its workers %.1f s, API server and controllers %.1f s, Git server %.1f s, benchmark %.1f s",
		p.agent.Seconds(), p.workers.Seconds(), p.cluster.Seconds(), p.git.Seconds(), p.bench.Seconds())
}
