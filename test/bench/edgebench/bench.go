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

// bench runs one scenario. All proxies run for its whole length, in front of one
// backend, and take short turns at the load: what the neighbours on the machine do
// in those seconds then affects all of them alike. It is used by one goroutine.
type bench struct {
	settings   *settings
	scenario   scenario
	identities *identities
	counter    *counter // nil counts no instructions
	dir        string
	out        io.Writer

	// backends are the addresses of the backend, one or one for each route, and rate the requests per second of a
	// scenario with a fixed rate; turn counts turns for the progress lines.
	backends []string
	rate     float64
	turn     int
	// connections is how many clients a proxy has to take at once, where that is more than usual.
	connections int
}

// contestant is a proxy that runs for the length of a scenario.
type contestant struct {
	peer    peer
	site    *site
	process *programs.Process
	result  *proxyResult
}

// run measures all proxies. An error means that the scenario could not
// continue; the failure of one proxy is recorded in the result and the others
// go on. The result is valid even with an error.
func (b *bench) run(ctx context.Context) (*scenarioResult, error) {
	result := &scenarioResult{Name: b.scenario.name, About: b.scenario.about}
	for _, p := range b.settings.peers {
		result.Proxies = append(result.Proxies, &proxyResult{Name: p.name, CPUs: p.cpus})
	}
	dir, err := openDir(b.dir, "backend-")
	if err != nil {
		return result, err
	}
	// One backend serves all turns of the scenario, so that differences between
	// proxies cannot come from it.
	stop, addresses, err := b.scenario.backend(ctx, dir)
	defer stop()
	if err != nil {
		return result, err
	}
	b.backends = addresses
	fmt.Fprintf(b.out, "\n%s: %s\n", b.scenario.name, b.scenario.about)
	var running []*contestant
	for i, p := range b.settings.peers {
		c := &contestant{peer: p, result: result.Proxies[i]}
		defer c.stop()
		err := b.start(ctx, c)
		if err == nil {
			err = b.warmUp(ctx, c)
		}
		if ctx.Err() != nil {
			return result, ctx.Err()
		}
		if err != nil {
			b.enter(c.result, sample{}, err)
			b.report(0, c.result, err)
			continue
		}
		running = append(running, c)
	}
	return result, b.takeTurns(ctx, running)
}

// takeTurns measures the proxies in turn, in every round from another one on.
func (b *bench) takeTurns(ctx context.Context, running []*contestant) error {
	for round := 1; round <= b.settings.rounds; round++ {
		for i := range running {
			c := running[(i+round)%len(running)]
			b.turn++
			// A proxy that failed once is not retried; its turn still counts,
			// so that the progress adds up.
			if c.result.gaveUp() {
				continue
			}
			taken, err := b.measure(ctx, c)
			// After an interrupt the error of the turn is a consequence of it,
			// not a failure of the proxy.
			if ctx.Err() != nil {
				return ctx.Err()
			}
			taken.Round = round
			b.enter(c.result, taken, err)
			b.report(round, c.result, err)
		}
	}
	return nil
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
	fmt.Fprintf(b.out, "  [%*d/%d] round %d  %-16s ", len(strconv.Itoa(turns)), b.turn, turns, round, p.label())
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

// start starts a proxy and waits until it has given correct responses.
func (b *bench) start(ctx context.Context, c *contestant) error {
	http3 := b.scenario.proto == http3Proto
	if http3 && !c.peer.http3 {
		return &skipError{"it does not serve HTTP/3"}
	}
	dir, err := openDir(b.dir, c.peer.name+"-")
	if err != nil {
		return err
	}
	// Entry point, admin server and health server; proxies other than slipway
	// use the first only.
	addresses, err := freeAddresses(3)
	if err != nil {
		return err
	}
	c.site = &site{
		dir: dir, address: addresses[0], admin: addresses[1], health: addresses[2],
		backend: b.backends[0], routes: b.scenario.routeKeys(), grpc: b.scenario.grpc(), upgrade: b.scenario.kind == webSocket,
		http3: http3, connections: b.connections, workers: c.peer.cpus,
	}
	if b.scenario.endpoints {
		c.site.endpoints = b.backends
	}
	if b.scenario.tls {
		c.site.tls = b.identities.of(b.scenario)
	}
	command, err := c.peer.prepare(c.site)
	if err != nil {
		return err
	}
	if b.counter != nil {
		if err := b.counter.attach(command, c.site); err != nil {
			return err
		}
	}
	err = onCPUs(c.peer.cpus, func() (err error) {
		c.process, err = startChild(c.peer.name, dir, command)
		return err
	})
	if err != nil {
		return err
	}
	err = await(ctx, c.process, func(ctx context.Context) error { return b.scenario.check(ctx, c.site) })
	// A child that exits with its message for an unknown option is an older
	// build without that feature: skipped, not failed.
	var ended *programs.ExitedError
	if errors.As(err, &ended) && c.peer.lacks != "" && strings.Contains(ended.Output, c.peer.lacks) {
		return &skipError{"this build does not have the option: " + ended.Output}
	}
	return err
}

// stop ends the proxy, if it was started. What it measured counts, however it ends.
func (c *contestant) stop() {
	if c.process != nil {
		_ = c.process.End(nil)
	}
}

// warmUp fills the proxy's pools and caches and opens the connections to the
// backend; it is not counted. The rate of a scenario with a fixed one is a share of
// what the first proxy can do, the baseline.
func (b *bench) warmUp(ctx context.Context, c *contestant) error {
	load := b.scenario.load
	if b.scenario.share > 0 && b.rate == 0 {
		load = runWrk
	}
	saw, err := load(ctx, order{scenario: b.scenario, site: c.site, length: warmUp, rate: b.rate})
	if err != nil {
		return fmt.Errorf("warming up: %w", err)
	}
	if b.rate == 0 {
		b.rate = b.scenario.share * saw.rate
	}
	return nil
}

// observe starts what records a proxy while the load runs: a profile, or a count of
// its system calls. finish collects it after the load and must be called.
func (b *bench) observe(ctx context.Context, c *contestant, length time.Duration, calls *map[string]int64) (finish func(requests int64) error, err error) {
	switch {
	case b.settings.profile != "" && b.counter != nil:
		return profileBlocks(b.counter.blocksFile(c.site), c.peer.program, b.settings.profile)
	case b.settings.profile != "" && c.peer.profiles:
		collect := fetchProfile(ctx, c.site.admin, length, b.settings.profile)
		return func(int64) error { return collect() }, nil
	case b.settings.syscalls:
		counted, err := countCalls(ctx, c)
		return func(int64) (err error) { *calls, err = counted(); return err }, err
	}
	return func(int64) error { return nil }, nil
}

// measure loads a running proxy and returns one sample. CPU time is the difference
// of two readings of the process tree around the load.
func (b *bench) measure(ctx context.Context, c *contestant) (sample, error) {
	o := order{scenario: b.scenario, site: c.site, length: b.settings.duration, rate: b.rate}
	finishBeside := func(*sample) {}
	if b.scenario.beside != nil {
		var err error
		if finishBeside, err = b.scenario.beside(ctx, o); err != nil {
			return sample{}, err
		}
	}
	taken, err := b.measureLoad(ctx, c, o)
	finishBeside(&taken)
	return taken, err
}

// measureLoad is measure without what runs beside the load.
func (b *bench) measureLoad(ctx context.Context, c *contestant, o order) (sample, error) {
	var calls map[string]int64
	finish, err := b.observe(ctx, c, o.length, &calls)
	if err != nil {
		return sample{}, err
	}
	pid := c.process.PID()
	// Only the time between the two readings counts, so the start of the proxy
	// and the warm-up are left out.
	before, err := measureTree(pid)
	if err != nil {
		return sample{}, err
	}
	executed, err := b.counter.read(c.site)
	if err != nil {
		return sample{}, err
	}
	saw, err := b.scenario.load(ctx, o)
	if err := errors.Join(err, finish(saw.requests)); err != nil {
		return sample{}, err
	}
	after, err := measureTree(pid)
	if err != nil {
		return sample{}, fmt.Errorf("%w; its output: %s", err, c.process.Output())
	}
	total, err := b.counter.read(c.site)
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
		Calls:        perRequest(calls, saw.requests),
	}, nil
}

// microseconds converts to the unit of the report.
func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
