package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"slipway.dev/slipway/internal/programs"
)

// tracer counts the system calls of running processes.
const tracer = "strace"

// countCalls starts to count the system calls of a proxy and its children. finish
// returns the counts and must be called.
func countCalls(ctx context.Context, c *contestant) (finish func() (map[string]int64, error), err error) {
	file := filepath.Join(c.site.dir, "calls.txt")
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	children, err := programs.Children(c.process.PID())
	if err != nil {
		return nil, err
	}
	args := []string{"-c", "-f", "-o", file}
	for _, pid := range append(children, c.process.PID()) {
		args = append(args, "-p", strconv.Itoa(pid))
	}
	command := exec.CommandContext(ctx, tracer, args...)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGINT}
	attached, err := command.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	// It prints a line for what it has attached to; only then everything is counted.
	if _, err := bufio.NewReader(attached).ReadString('\n'); err != nil {
		return nil, errors.Join(err, command.Process.Kill(), command.Wait())
	}
	go func() { _, _ = io.Copy(io.Discard, attached) }() // it must not block
	return func() (map[string]int64, error) {
		// Interrupted, it detaches, writes its table and ends by the same signal.
		if err := command.Process.Signal(syscall.SIGINT); err != nil {
			return nil, err
		}
		watchdog := time.AfterFunc(stopTime, func() { _ = command.Process.Kill() })
		defer watchdog.Stop()
		_ = command.Wait()
		table, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer table.Close()
		return parseCalls(table)
	}, nil
}

// parseCalls parses the table of strace -c: the share of the time, seconds,
// microseconds per call, calls, errors where there are any, and the name.
func parseCalls(r io.Reader) (map[string]int64, error) {
	calls := map[string]int64{}
	lines := bufio.NewScanner(r)
	inside := false
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) > 0 && strings.HasPrefix(fields[0], "------"):
			inside = !inside // the sum follows the second line
		case inside && len(fields) >= 5:
			count, err := strconv.ParseInt(fields[3], 10, 64)
			if err != nil {
				return nil, err
			}
			calls[fields[len(fields)-1]] += count
		}
	}
	if len(calls) == 0 {
		return nil, errors.Join(lines.Err(), errors.New("strace has counted no system call"))
	}
	return calls, lines.Err()
}

// perRequest divides counts.
func perRequest(calls map[string]int64, requests int64) map[string]float64 {
	if calls == nil {
		return nil
	}
	shares := make(map[string]float64, len(calls))
	for name, count := range calls {
		shares[name] = float64(count) / float64(requests)
	}
	return shares
}

// rareCalls is how seldom a system call is left out of the table.
const rareCalls = 0.005

// printCalls writes a table with a row for each system call and a column for each
// proxy, of the last round.
func (s *scenarioResult) printCalls(out io.Writer) {
	most := map[string]float64{}
	for _, p := range s.Proxies {
		for name, count := range p.calls() {
			most[name] = max(most[name], count)
		}
	}
	var names []string
	for name, count := range most {
		if count >= rareCalls {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		if most[a] != most[b] {
			return int(1000 * (most[b] - most[a]))
		}
		return strings.Compare(a, b)
	})
	fmt.Fprintf(out, "\n%s: %s; system calls per request\n", s.Name, s.About)
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	row := func(name string, figure func(calls map[string]float64) float64) {
		fmt.Fprintf(table, "%s\t", name)
		for _, p := range s.Proxies {
			fmt.Fprintf(table, "%.2f\t", figure(p.calls()))
		}
		fmt.Fprintln(table)
	}
	fmt.Fprint(table, "call\t")
	for _, p := range s.Proxies {
		fmt.Fprintf(table, "%s\t", p.Name)
	}
	fmt.Fprintln(table)
	for _, name := range names {
		row(name, func(calls map[string]float64) float64 { return calls[name] })
	}
	row("all", func(calls map[string]float64) (sum float64) {
		for _, count := range calls {
			sum += count
		}
		return sum
	})
	table.Flush()
}

// calls are those of the last sample; nil without one.
func (p *proxyResult) calls() map[string]float64 {
	if len(p.Samples) == 0 {
		return nil
	}
	return p.Samples[len(p.Samples)-1].Calls
}
