package edgeprocess

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// measureTimeout bounds one admin request; under attack the process is very
// busy.
const measureTimeout = 20 * time.Second

// Memory returns the resident set size of the process in bytes.
func (e *Edge) Memory(t *testing.T) int64 {
	t.Helper()
	memory := must.Get(programs.ReadMemory(e.PID()))(t)
	return memory.Resident
}

// Files returns the number of open file descriptors. A test for leaked
// connections compares it before and after.
func (e *Edge) Files(t *testing.T) int {
	t.Helper()
	entries := must.Get(os.ReadDir(fmt.Sprintf("/proc/%d/fd", e.PID())))(t)
	return len(entries)
}

// Work returns the CPU time that the process has used, in user and kernel mode.
func (e *Edge) Work(t *testing.T) time.Duration {
	t.Helper()
	return must.Get(programs.CPUTime(e.PID()))(t)
}

// Goroutines returns the number of goroutines, from the profile of the admin
// server.
func (e *Edge) Goroutines(t *testing.T) int {
	t.Helper()
	text := e.fetch(t, "admin", "/debug/pprof/goroutine?debug=1")
	line, _, _ := strings.Cut(text, "\n")
	count, err := strconv.Atoi(strings.TrimPrefix(line, "goroutine profile: total "))
	if err != nil {
		t.Fatalf("no goroutine profile: %q", line)
	}
	return count
}

// Collect forces a garbage collection through the heap profile, so that the
// next measurement shows the memory that is in use.
func (e *Edge) Collect(t *testing.T) {
	t.Helper()
	e.fetch(t, "admin", "/debug/pprof/heap?gc=1")
}

// Metric returns the sum of all series of a metric whose labels contain a text.
// A metric without such a series is 0: counters appear with their first
// increment.
func (e *Edge) Metric(t *testing.T, name, labels string) float64 {
	t.Helper()
	sum, _, err := programs.Metric(e.fetch(t, "health", "/metrics"), name, labels)
	must.Do(t, err)
	return sum
}

// fetch returns the body of a response of the admin or the health server, and
// fails the test on any other status than 200.
func (e *Edge) fetch(t *testing.T, server, path string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), measureTimeout)
	defer cancel()
	return must.Get(programs.Fetch(ctx, "http://"+e.servers[server]+path))(t)
}
