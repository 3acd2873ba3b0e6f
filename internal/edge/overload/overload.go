// Package overload watches the memory of the process, so that the edge can
// shed load before the kernel ends it.
//
// [Limit] finds how much memory the process may have. [Monitor.Run] compares
// it with what is in use, several times a second, and [Monitor.Level] says what
// follows from that: above [TightAt] connections are no longer kept open
// between requests, above [FullAt] requests are refused. A level is left only
// below [CalmAt], so that it does not flicker. [Settle] gives back what only a
// start needs.
//
// It promises that reading the level costs one atomic load. It refuses to
// guess: without a limit there is no level but Calm.
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

// Level is how little memory is left.
type Level int32

// The levels.
const (
	// Normal: there is enough.
	Normal Level = iota
	// Tight: idle connections are memory that others need.
	Tight
	// Full: another request may be the one too many.
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
	return "calm"
}

// The shares of the limit at which levels begin and end, and the share that the
// garbage collector is told to stay below: it works harder before anything is
// refused.
const (
	CollectAt = 0.90
	NormalAt  = 0.91
	TightAt   = 0.92
	FullAt    = 0.95
)

// Period is the time between two looks.
const Period = 250 * time.Millisecond

// cgroupRoot is where the kernel says what a container may use.
const cgroupRoot = "/sys/fs/cgroup"

// Limit is how much memory the process may have, in bytes; 0 when nobody says.
// GOMEMLIMIT wins over the limit of the container. When it is not set, Limit
// sets the collector's goal to a share of the container's limit.
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

// containerLimit reads the limit of a control group, version 2 or 1. A limit
// that no machine has means none.
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

// Monitor knows the level.
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

// Level is the level now.
func (m *Monitor) Level() Level { return Level(m.level.Load()) }

// Run looks until ctx is done.
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

// next is the level for a share of the limit, after another level.
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

// inUse is what the process has from the system: all that the runtime mapped
// and has not given back.
func inUse() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() - samples[1].Value.Uint64()
}
