package agentprocess

import (
	"time"

	"slipway.dev/slipway/internal/programs"
)

// Peak is the highest resident memory of an agent, and of any single worker, in
// bytes.
type Peak struct {
	Agent, Worker int64
	// Workers is the number of distinct worker processes that were observed.
	Workers int
}

// FollowMemory samples the memory of the agent and its workers until stop is
// called, and stop returns the peak. It reads the high-water mark that the
// kernel keeps for each process, so only growth after the last sample of a
// worker is missed.
func (a *Agent) FollowMemory() (stop func() Peak) {
	// Only the goroutine writes peak until ended is closed, so no lock is
	// needed.
	var peak Peak
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		seen := map[int]bool{}
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			peak.Agent = max(peak.Agent, highest(a.PID()))
			workers, _ := programs.Children(a.PID()) // the next look finds what this one missed
			for _, worker := range workers {
				peak.Worker = max(peak.Worker, highest(worker))
				seen[worker] = true
			}
			peak.Workers = len(seen)
			select {
			case <-tick.C:
			case <-end:
				return
			}
		}
	}()
	return func() Peak {
		close(end)
		<-ended
		return peak
	}
}

// highest returns the high-water mark of a process, or 0 if it has exited.
func highest(pid int) int64 {
	memory, _ := programs.ReadMemory(pid)
	return memory.Most
}
