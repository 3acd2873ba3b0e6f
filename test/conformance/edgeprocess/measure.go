package edgeprocess

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// measureTimeout bounds one admin request; under attack the process is very
// busy.
const measureTimeout = 20 * time.Second

// maxMeasure bounds the size of a profile or of the metrics.
const maxMeasure = 8 << 20

// Memory returns the resident set size of the process in bytes.
func (e *Edge) Memory(t *testing.T) int64 {
	t.Helper()
	status, err := os.ReadFile(e.proc("status"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kilobytes, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kilobytes << 10
		}
	}
	t.Fatal("the kernel does not say how much memory the edge has")
	return 0
}

// Files returns the number of open file descriptors. A test for leaked
// connections compares it before and after.
func (e *Edge) Files(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir(e.proc("fd"))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// Work returns the CPU time that the process has used, in user and kernel mode.
func (e *Edge) Work(t *testing.T) time.Duration {
	t.Helper()
	text, err := os.ReadFile(e.proc("stat"))
	if err != nil {
		t.Fatal(err)
	}
	// The command name is in parentheses and may contain spaces, so fields are
	// counted from the last parenthesis; see proc(5).
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const user, system, ticks = 11, 12, 100 // of a second, on Linux
	var sum int64
	for _, i := range []int{user, system} {
		count, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += count
	}
	return time.Duration(sum) * time.Second / ticks
}

// proc returns the path of a file of the process below /proc.
func (e *Edge) proc(name string) string {
	return filepath.Join("/proc", strconv.Itoa(e.command.Process.Pid), name)
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
	sum := 0.0
	lines := bufio.NewScanner(strings.NewReader(e.fetch(t, "health", "/metrics")))
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), name)
		// Another metric may have this name as its prefix.
		if !ok || rest == "" || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		series, value, _ := strings.Cut(rest, " ")
		if !strings.Contains(series, labels) {
			continue
		}
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatalf("metric %s: %v", name, err)
		}
		sum += number
	}
	return sum
}

// fetch returns the body of a response of the admin or the health server, and
// fails the test on any other status than 200.
func (e *Edge) fetch(t *testing.T, server, path string) string {
	t.Helper()
	text, err := e.get(t.Context(), server, path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// get is fetch with an error.
func (e *Edge) get(ctx context.Context, server, path string) (string, error) {
	e.mu.Lock()
	address := e.servers[server]
	e.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, measureTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return "", err
	}
	request.Close = true // so that the server closes as well
	// A transport per request keeps no idle connection, which would count as an
	// open file of the edge and as a goroutine of the test.
	response, err := new(http.Transport).RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxMeasure))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s of the edge answers %d to %s: %s", server, response.StatusCode, path, text)
	}
	return string(text), err
}
