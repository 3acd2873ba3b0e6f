// Package overload monitors the memory of the process, so that the edge can
// shed load before the kernel kills it.
//
// [Limit] finds the memory limit of the process. [Monitor.Run] compares it with
// the memory in use, several times a second, and [Monitor.Level] is the result:
// above [TightAt] connections are no longer kept open between requests, above
// [FullAt] requests are refused. A level ends only below [NormalAt], so that it
// does not flap. [ReleaseStartupMemory] returns memory that only the start
// needs.
//
// It promises that reading the level costs one atomic load. It does not guess:
// without a limit the level is always Normal.
//
// See decision 0023 in docs/decisions: what only a start needs is given back.
package overload

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Level is the memory pressure.
type Level int32

// The levels.
const (
	// Normal: there is enough memory.
	Normal Level = iota
	// Tight: the memory of idle connections is needed.
	Tight
	// Full: another request may exceed the limit.
	Full
)

// String is the level for logs.
func (l Level) String() string {
	switch l {
	case Full:
		return "full"
	case Tight:
		return "tight"
	}
	return "normal"
}

// The shares of the limit at which levels begin and end, and the share that is
// the goal of the garbage collector: it works harder before anything is
// refused.
const (
	CollectAt = 0.90
	NormalAt  = 0.91
	TightAt   = 0.92
	FullAt    = 0.95
)

// Period is the interval of the Monitor.
const Period = 250 * time.Millisecond

// cgroupRoot is where the kernel has the limits of a container.
const cgroupRoot = "/sys/fs/cgroup"

// Limit returns the memory limit of the process, in bytes; 0 for none.
// GOMEMLIMIT takes precedence over the limit of the container. When it is not
// set, Limit sets the goal of the garbage collector to a share of the
// container's limit.
func Limit() uint64 {
	if goal := debug.SetMemoryLimit(-1); goal != math.MaxInt64 {
		return uint64(float64(goal) / CollectAt)
	}
	limit := containerLimit(cgroupRoot)
	if limit > 0 {
		debug.SetMemoryLimit(int64(float64(limit) * CollectAt))
	}
	return limit
}

// containerLimit reads the limit of a cgroup, version 2 or 1. A limit larger
// than the memory of any machine means none.
func containerLimit(root string) uint64 {
	for _, name := range []string{"memory.max", "memory/memory.limit_in_bytes"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			continue
		}
		limit, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
		if err == nil && limit < 1<<50 {
			return limit
		}
	}
	return 0
}

// Monitor compares the memory in use with a limit.
type Monitor struct {
	limit   uint64
	used    func() uint64
	changed func(Level)
	level   atomic.Int32
}

// NewMonitor makes a monitor for a limit; 0 is none. changed is called for each
// change of the level and may be nil.
func NewMonitor(limit uint64, changed func(Level)) *Monitor {
	return &Monitor{limit: limit, used: inUse, changed: changed}
}

// Level is the current level.
func (m *Monitor) Level() Level { return Level(m.level.Load()) }

// Run updates the level until ctx is done.
func (m *Monitor) Run(ctx context.Context) {
	if m.limit == 0 {
		<-ctx.Done()
		return
	}
	tick := time.NewTicker(Period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			m.check()
		}
	}
}

func (m *Monitor) check() {
	before := m.Level()
	now := next(before, float64(m.used())/float64(m.limit))
	if now == before {
		return
	}
	m.level.Store(int32(now))
	if m.changed != nil {
		m.changed(now)
	}
}

// next returns the level for a share of the limit, given the previous level.
// Between NormalAt and TightAt the previous level stays.
func next(before Level, share float64) Level {
	switch {
	case share >= FullAt:
		return Full
	case share < NormalAt:
		return Normal
	case before == Full:
		return Full
	case share >= TightAt:
		return Tight
	}
	return before
}

// inUse is the memory of the process: everything that the runtime has mapped
// and not returned to the system.
func inUse() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() - samples[1].Value.Uint64()
}
