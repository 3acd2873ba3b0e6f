package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"slipway.dev/slipway/internal/programs"
)

// bench runs one scenario: the proxies take turns for several rounds, in front
// of one backend. It is used by one goroutine.
type bench struct {
	settings *settings
	scenario scenario
	identity *identity
	counter  *counter // nil counts no instructions
	dir      string
	out      io.Writer

	// backend is the address of the backend, set by run; turn counts turns for
	// the progress lines.
	backend string
	turn    int
}

// run measures all proxies. An error means that the scenario could not
// continue; the failure of one proxy is recorded in the result and the others
// go on. The result is valid even with an error.
func (b *bench) run(ctx context.Context) (*scenarioResult, error) {
	result := &scenarioResult{Name: b.scenario.name, About: b.scenario.about}
	for _, p := range b.settings.peers {
		result.Proxies = append(result.Proxies, &proxyResult{Name: p.name})
	}
	dir, err := openDir(b.dir, "backend-")
	if err != nil {
		return result, err
	}
	// One backend serves all turns of the scenario, so that differences between
	// proxies cannot come from it.
	backend, address, err := startBackend(ctx, dir)
	if err != nil {
		return result, err
	}
	defer func() { _ = backend.End(nil) }() // nothing depends on how it ends
	b.backend = address
	fmt.Fprintf(b.out, "\n%s: %s\n", b.scenario.name, b.scenario.about)
	for round := 1; round <= b.settings.rounds; round++ {
		for i, p := range b.settings.peers {
			b.turn++
			into := result.Proxies[i]
			// A proxy that failed once is not retried; its turn still counts,
			// so that the progress adds up.
			if into.gaveUp() {
				continue
			}
			taken, err := b.takeTurn(ctx, p)
			// After an interrupt the error of the turn is a consequence of it,
			// not a failure of the proxy.
			if ctx.Err() != nil {
				return result, ctx.Err()
			}
			b.enter(into, taken, err)
			b.report(round, into, err)
		}
	}
	return result, nil
}

// openDir creates a directory that the workers of nginx can read: they drop
// root privileges, and MkdirTemp creates directories with mode 0700.
func openDir(parent, prefix string) (string, error) {
	dir, err := os.MkdirTemp(parent, prefix)
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o755)
}

// enter records the outcome of a turn: a sample, a failure, or the reason to
// skip the proxy.
func (b *bench) enter(into *proxyResult, taken sample, err error) {
	var skip *skipError
	switch {
	case errors.As(err, &skip):
		into.Skipped = skip.Error()
	case err != nil:
		into.Failure = err.Error()
	default:
		into.Samples = append(into.Samples, taken)
	}
}

// report prints one progress line for a turn.
func (b *bench) report(round int, p *proxyResult, err error) {
	turns := len(b.settings.peers) * b.settings.rounds
	fmt.Fprintf(b.out, "  [%*d/%d] round %d  %-10s ", len(strconv.Itoa(turns)), b.turn, turns, round, p.Name)
	var skip *skipError
	switch {
	case errors.As(err, &skip):
		fmt.Fprintln(b.out, "skipped:", err)
	case err != nil:
		fmt.Fprintln(b.out, "failed:", err)
	default:
		s := p.Samples[len(p.Samples)-1]
		fmt.Fprintf(b.out, "%7.0f req/s  p50 %8s  p99 %8s  %6.1f %s/request  %4.0f MB  %d errors %s\n",
			s.Rate, shortTime(s.P50), shortTime(s.P99), costOf(s), s.costUnit(), s.MemoryMB, s.Errors, s.Reason)
	}
}

// skipError is the error of a proxy that does not support the scenario. It is
// no failure of the run.
type skipError struct{ reason string }

// Error returns the reason for the report's table.
func (e *skipError) Error() string { return e.reason }

// takeTurn starts a proxy, measures it and stops it. Every turn is a fresh
// process with fresh ports, so no state carries over between rounds.
func (b *bench) takeTurn(ctx context.Context, p peer) (sample, error) {
	dir, err := openDir(b.dir, p.name+"-")
	if err != nil {
		return sample{}, err
	}
	defer os.RemoveAll(dir)
	// Entry point, admin server and health server; proxies other than slipway
	// use the first only.
	addresses, err := freeAddresses(3)
	if err != nil {
		return sample{}, err
	}
	s := &site{
		dir: dir, address: addresses[0], admin: addresses[1], health: addresses[2],
		backend: b.backend, routes: b.scenario.routeKeys(),
	}
	if b.scenario.tls {
		s.tls = b.identity
	}
	command, err := p.prepare(s)
	if err != nil {
		return sample{}, err
	}
	if b.counter != nil {
		if err := b.counter.attach(command, s); err != nil {
			return sample{}, err
		}
	}
	proxy, err := startChild(p.name, dir, command)
	if err != nil {
		return sample{}, err
	}
	defer func() { _ = proxy.End(nil) }() // what it measured counts, however it ends
	if err := await(ctx, proxy, newProbe(b.scenario, s).check); err != nil {
		// A child that exits with its message for an unknown option is an older
		// build without that feature: skipped, not failed.
		var ended *programs.ExitedError
		if errors.As(err, &ended) && p.lacks != "" && strings.Contains(ended.Output, p.lacks) {
			return sample{}, &skipError{"this build does not have the option: " + ended.Output}
		}
		return sample{}, err
	}
	return b.measure(ctx, p, proxy, s)
}

// measure loads a running proxy and returns one sample. The warm-up fills the
// proxy's pools and caches and opens the connections to the backend; it is not
// counted. CPU time is the difference of two readings of the process tree
// around the load.
func (b *bench) measure(ctx context.Context, p peer, proxy *programs.Process, s *site) (sample, error) {
	o := order{scenario: b.scenario, site: s, length: warmUp}
	if _, err := b.scenario.load(ctx, o); err != nil {
		return sample{}, fmt.Errorf("warming up: %w", err)
	}
	o.length = b.settings.duration
	// The profile has to record while the load runs, so it starts before it and
	// is collected after.
	finish := func() error { return nil }
	if b.settings.profile != "" && p.profiles {
		finish = fetchProfile(ctx, s.admin, o.length, b.settings.profile)
	}
	pid := proxy.PID()
	// Only the time between the two readings counts, so the start of the proxy
	// and the warm-up are left out.
	before, err := measureTree(pid)
	if err != nil {
		return sample{}, err
	}
	executed, err := b.counter.read(s)
	if err != nil {
		return sample{}, err
	}
	saw, err := b.scenario.load(ctx, o)
	if err := errors.Join(err, finish()); err != nil {
		return sample{}, err
	}
	after, err := measureTree(pid)
	if err != nil {
		return sample{}, fmt.Errorf("%w; its output: %s", err, proxy.Output())
	}
	total, err := b.counter.read(s)
	if err != nil {
		return sample{}, err
	}
	if b.settings.profile != "" {
		file, _ := filepath.Abs(b.settings.profile)
		fmt.Fprintln(b.out, "  written:", file)
	}
	return sample{
		Requests: saw.requests, Errors: saw.errors, Reason: saw.reason, Rate: saw.rate,
		P50: microseconds(saw.p50), P99: microseconds(saw.p99),
		CPUMicros:    microseconds(after.CPU-before.CPU) / float64(saw.requests),
		Instructions: float64(total-executed) / float64(saw.requests),
		MemoryMB:     float64(after.Memory) / 1e6,
	}, nil
}

// microseconds converts to the unit of the report.
func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
