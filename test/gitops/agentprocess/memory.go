package agentprocess

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
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
		seen := map[string]bool{}
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			peak.Agent = max(peak.Agent, highest(strconv.Itoa(a.PID())))
			for _, worker := range a.children() {
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

// children returns the IDs of the child processes that still run. Each thread
// has its own list, and the Go runtime starts processes from any thread.
func (a *Agent) children() []string {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", a.PID()))
	if err != nil {
		return nil
	}
	var all []string
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if err != nil {
			continue // a thread that has ended
		}
		all = append(all, strings.Fields(string(text))...)
	}
	return all
}

// highest returns the high-water mark of a process, or 0 if it has exited.
func highest(process string) int64 {
	text, err := os.ReadFile(filepath.Join("/proc", process, "status"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kilobytes, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kilobytes << 10
		}
	}
	return 0
}
