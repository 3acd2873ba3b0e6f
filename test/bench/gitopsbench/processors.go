package main

import (
	"fmt"
	"os"
	"time"

	"slipway.dev/slipway/internal/programs"
)

// processorTime is the CPU time of the processes that share the machine. It
// shows whether the agent or its surroundings limited a phase.
type processorTime struct {
	agent, workers time.Duration
	// cluster is the API server with its database and the controllers.
	cluster time.Duration
	// bench is this program, and git the Git server that it starts.
	bench, git time.Duration
}

// readProcessorTime reads the CPU times of the agent, its workers, the cluster
// and the benchmark.
func readProcessorTime(agents []int, cluster int) (processorTime, error) {
	var p processorTime
	var err error
	for _, agent := range agents {
		own, err := programs.CPUTime(agent)
		if err != nil {
			return p, err
		}
		workers, err := programs.ChildrenCPUTime(agent)
		if err != nil {
			return p, err
		}
		p.agent, p.workers = p.agent+own, p.workers+workers
	}
	if p.cluster, err = programs.CPUTime(cluster); err != nil {
		return p, err
	}
	if p.bench, err = programs.CPUTime(os.Getpid()); err != nil {
		return p, err
	}
	// The Git server has no PID of its own: git-http-backend runs once per
	// request. Its time is that of all children of this program without the
	// agent and the cluster. The difference can be negative, because workers
	// that still run are not part of the sum.
	all, err := programs.ChildrenCPUTime(os.Getpid())
	p.git = max(0, all-p.agent-p.workers-p.cluster)
	return p, err
}

// since returns the difference to an earlier reading.
func (p processorTime) since(before processorTime) processorTime {
	return processorTime{
		agent: p.agent - before.agent, workers: p.workers - before.workers, cluster: p.cluster - before.cluster,
		bench: p.bench - before.bench, git: p.git - before.git,
	}
}

// String lists all CPU times in seconds, for the progress lines.
func (p processorTime) String() string {
	return fmt.Sprintf("agent %.1f s, its workers %.1f s, API server and controllers %.1f s, Git server %.1f s, benchmark %.1f s",
		p.agent.Seconds(), p.workers.Seconds(), p.cluster.Seconds(), p.git.Seconds(), p.bench.Seconds())
}
