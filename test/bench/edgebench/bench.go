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
)

// bench runs one scenario: the proxies take turns for some rounds, in front of
// one backend.
type bench struct {
	settings *settings
	scenario scenario
	identity *identity
	dir      string
	out      io.Writer

	backend string
	turn    int
}

// run measures all proxies. An error means that it could not go on; a proxy
// that fails is in the result. There is a result with an error, too.
func (b *bench) run(ctx context.Context) (*scenarioResult, error) {
	result := &scenarioResult{Name: b.scenario.name, About: b.scenario.about}
	for _, p := range b.settings.peers {
		result.Proxies = append(result.Proxies, &proxyResult{Name: p.name})
	}
	dir, err := openDir(b.dir, "backend-")
	if err != nil {
		return result, err
	}
	backend, address, err := startBackend(ctx, dir)
	if err != nil {
		return result, err
	}
	defer backend.stop()
	b.backend = address
	fmt.Fprintf(b.out, "\n%s: %s\n", b.scenario.name, b.scenario.about)
	for round := 1; round <= b.settings.rounds; round++ {
		for i, p := range b.settings.peers {
			b.turn++
			into := result.Proxies[i]
			if into.gaveUp() {
				continue
			}
			taken, err := b.takeTurn(ctx, p)
			if ctx.Err() != nil {
				return result, ctx.Err()
			}
			b.enter(into, taken, err)
			b.tell(round, into, err)
		}
	}
	return result, nil
}

// openDir makes a folder that the workers of nginx can read: they give up root.
func openDir(parent, prefix string) (string, error) {
	dir, err := os.MkdirTemp(parent, prefix)
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o755)
}

// enter puts the result of a turn where it belongs.
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

// tell prints one line of progress.
func (b *bench) tell(round int, p *proxyResult, err error) {
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
		fmt.Fprintf(b.out, "%7.0f req/s  p50 %8s  p99 %8s  %6.1f µs CPU/request  %4.0f MB  %d errors %s\n",
			s.Rate, shortTime(s.P50), shortTime(s.P99), s.CPUMicros, s.MemoryMB, s.Errors, s.Reason)
	}
}

// skipError is a proxy that cannot do what the scenario asks for.
type skipError struct{ reason string }

func (e *skipError) Error() string { return e.reason }

// takeTurn starts a proxy, measures it and stops it.
func (b *bench) takeTurn(ctx context.Context, p peer) (sample, error) {
	dir, err := openDir(b.dir, p.name+"-")
	if err != nil {
		return sample{}, err
	}
	defer os.RemoveAll(dir)
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
	proxy, err := startChild(p.name, dir, command)
	if err != nil {
		return sample{}, err
	}
	defer proxy.stop()
	if err := proxy.await(ctx, newProbe(b.scenario, s).check); err != nil {
		var ended *exitedError
		if errors.As(err, &ended) && p.lacks != "" && strings.Contains(ended.said, p.lacks) {
			return sample{}, &skipError{"this build does not have the option: " + ended.said}
		}
		return sample{}, err
	}
	return b.measure(ctx, p, proxy, s)
}

// measure loads a proxy that serves. Warming up fills its pools and its caches,
// and makes the connections to the backend.
func (b *bench) measure(ctx context.Context, p peer, proxy *child, s *site) (sample, error) {
	o := order{scenario: b.scenario, site: s, length: warmUp}
	if _, err := b.scenario.load(ctx, o); err != nil {
		return sample{}, fmt.Errorf("warming up: %w", err)
	}
	o.length = b.settings.duration
	finish := func() error { return nil }
	if b.settings.profile != "" && p.profiles {
		finish = fetchProfile(ctx, s.admin, o.length, b.settings.profile)
	}
	pid := proxy.command.Process.Pid
	before, err := measureTree(pid)
	if err != nil {
		return sample{}, err
	}
	saw, err := b.scenario.load(ctx, o)
	if err := errors.Join(err, finish()); err != nil {
		return sample{}, err
	}
	after, err := measureTree(pid)
	if err != nil {
		return sample{}, fmt.Errorf("%w; it said: %s", err, proxy.said())
	}
	if b.settings.profile != "" {
		file, _ := filepath.Abs(b.settings.profile)
		fmt.Fprintln(b.out, "  written:", file)
	}
	return sample{
		Requests: saw.requests, Errors: saw.errors, Reason: saw.reason, Rate: saw.rate,
		P50: microseconds(saw.p50), P99: microseconds(saw.p99),
		CPUMicros: microseconds(after.CPU-before.CPU) / float64(saw.requests),
		MemoryMB:  float64(after.Memory) / 1e6,
	}, nil
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
