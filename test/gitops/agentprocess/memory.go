package agentprocess

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Peak is the most memory that an agent had resident, and that any one of its
// workers had, in bytes.
type Peak struct {
	Agent, Worker int64
	// Workers is how many different ones were seen.
	Workers int
}

// FollowMemory looks at the memory of the agent and its workers until stop is
// called. The kernel keeps the highest mark of each process, so that only the
// last moment of a worker that dies can be missed.
func (a *Agent) FollowMemory() (stop func() Peak) {
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

// children are the processes that the agent has started and that still run.
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

// highest is the highest mark of a process that still runs.
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
