package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/bench/ground"
)

// sampleHosts is the number of random hosts that must be served before all
// routes count as live. Requesting every host would load the edge during its
// start.
const sampleHosts = 100

// Names of the phases, in their order. They are the values of -only as well.
const (
	phaseCold      = "cold start"
	phaseIdle      = "idle"
	phaseCreate    = "create"
	phaseEndpoint  = "endpoint"
	phaseWork      = "work"
	phaseLoad      = "load"
	phaseEnd       = "end"
	phaseShared    = "shared"
	phaseBeside    = "beside"
	phaseListeners = "listeners"
)

// optionalPhases returns the phases that -only can select. The others always
// run; idle, for example, is the baseline of work.
func optionalPhases() []string {
	return []string{phaseCreate, phaseEndpoint, phaseWork, phaseLoad, phaseShared, phaseBeside, phaseListeners}
}

// bench measures one edge at one size. All phases run in one goroutine, one
// after the other.
type bench struct {
	settings *settings
	world    *world
	dir      string
	out      io.Writer
	figures  *figures

	edge *edge
	// idle is the share of a CPU that the edge uses without changes or
	// requests. It is measured once and subtracted from the cost of changes.
	idle float64
}

// run grows the cluster to the size, measures the edge, and then the peer if
// there is one. The two never run at the same time.
func (b *bench) run(ctx context.Context) (err error) {
	took, err := b.world.grow(ctx, b.figures.Ingresses)
	if err != nil {
		return err
	}
	b.report("%d Ingresses (objects created in %s)", b.figures.Ingresses, took.Round(100*time.Millisecond))
	if err := b.runEdge(ctx); err != nil {
		return err
	}
	if b.settings.peer == "" {
		return nil
	}
	if err := b.runPeer(ctx); err != nil {
		return fmt.Errorf("%s: %w", b.settings.peer, err)
	}
	return nil
}

// runEdge starts an edge, runs the selected phases and stops it. An error of a
// phase includes the end of the edge's log.
func (b *bench) runEdge(ctx context.Context) (err error) {
	if b.edge, err = startEdge(b.settings, b.world.Cluster, b.dir); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, b.edge.End(nil))
		b.edge = nil
	}()
	for _, phase := range []struct {
		name string
		run  func(context.Context) error
	}{
		{phaseCold, b.cold},
		{phaseIdle, b.rest},
		{phaseCreate, b.delaysOfCreate},
		{phaseEndpoint, b.delaysOfEndpoint},
		{phaseWork, b.work},
		{phaseLoad, b.load},
		{phaseEnd, b.end},
		{phaseShared, b.loadShared},
		{phaseBeside, b.loadBeside},
		{phaseListeners, b.changeListeners},
	} {
		if !b.settings.measures(phase.name) {
			continue
		}
		if err := phase.run(ctx); err != nil {
			return fmt.Errorf("%s: %w; the edge's output: %s", phase.name, err, b.edge.Output())
		}
	}
	return nil
}

// report prints one indented progress line.
func (b *bench) report(format string, args ...any) { fmt.Fprintf(b.out, "  "+format+"\n", args...) }

// cold measures the start: until the edge is ready, and until a sample of hosts
// is served by the right endpoint. It ends with the CPU time since the process
// started.
func (b *bench) cold(ctx context.Context) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, coldTimeout)
	defer cancel()
	finish := b.profiles().CPU(ctx, "cold", 5*time.Second)
	if err := b.edge.Await(ctx, 5*time.Millisecond, b.edge.ready); err != nil {
		return err
	}
	b.figures.Ready = time.Since(began).Seconds()
	c, request := b.edge.querier(b.settings.tls)
	defer c.close()
	for range sampleHosts {
		app := rand.IntN(b.world.apps)
		_, err := b.until(ctx, hostOf(app), request, func(got response) bool { return got.backend == endpointOf(app, b.world.moved[app]) })
		if err != nil {
			return err
		}
	}
	b.figures.Cold = time.Since(began).Seconds()
	used, err := programs.CPUTime(b.edge.PID())
	if err != nil {
		return err
	}
	b.figures.ColdCPU = used.Seconds()
	b.report("cold: ready after %.2f s, all live after %.2f s, %.2f s CPU", b.figures.Ready, b.figures.Cold, b.figures.ColdCPU)
	return finish()
}

// until requests host every lookPeriod until done accepts the response, and
// returns the time of that response. Failed requests are retried, because a
// route that is not live yet may refuse the connection or the handshake.
func (b *bench) until(
	ctx context.Context, host string, request func(context.Context, string) (response, error), done func(response) bool,
) (time.Time, error) {
	var at time.Time
	err := b.edge.Await(ctx, lookPeriod, func(ctx context.Context) error {
		got, err := request(ctx, host)
		switch {
		case err != nil:
			return err
		case !done(got):
			return fmt.Errorf("%s responds with %d from %s", host, got.status, got.backend)
		}
		at = time.Now()
		return nil
	})
	return at, err
}

// rest leaves the edge without changes and records its memory and idle CPU
// time. With -status or -gateway it first waits until every Ingress or route has its
// status, because those writes are work.
func (b *bench) rest(ctx context.Context) error {
	if b.settings.status || b.settings.gateway {
		if err := b.edge.Await(ctx, time.Second, b.world.published); err != nil {
			return err
		}
	}
	if err := ground.Wait(ctx, b.settings.settle); err != nil {
		return err
	}
	used, err := measure(b.edge.PID(), func() error { return ground.Wait(ctx, max(b.settings.settle, 2*time.Second)) })
	if err != nil {
		return err
	}
	b.idle = used.cpu.Seconds() / used.took.Seconds()
	m, err := programs.ReadMemory(b.edge.PID())
	if err != nil {
		return err
	}
	b.figures.Idle = b.idle
	b.figures.Settled, b.figures.Peak = ground.Megabytes(m.Resident), ground.Megabytes(m.Most)
	b.report("idle: RSS %.0f MB, at most %.0f MB until then, %.1f ms CPU per second", b.figures.Settled, b.figures.Peak, 1000*b.idle)
	return b.profiles().Heap(ctx, "settled")
}

// end reads the memory after all phases before it. It comes before shared,
// which adds routes.
func (b *bench) end(ctx context.Context) error {
	m, err := programs.ReadMemory(b.edge.PID())
	if err != nil {
		return err
	}
	b.figures.Loaded, b.figures.PeakEver = ground.Megabytes(m.Resident), ground.Megabytes(m.Most)
	b.report("end: RSS %.0f MB, at most %.0f MB", b.figures.Loaded, b.figures.PeakEver)
	return b.profiles().Heap(ctx, "end")
}

// used is the CPU time of a process during an interval.
type used struct{ cpu, took time.Duration }

// beyondIdle returns the CPU time without the share that the edge uses when
// idle. Noise can make the difference negative, which counts as zero.
func (b *bench) beyondIdle(u used) time.Duration {
	return max(0, u.cpu-time.Duration(b.idle*float64(u.took)))
}

// measure runs do and returns the CPU time of the process meanwhile.
func measure(pid int, do func() error) (used, error) {
	before, err := programs.CPUTime(pid)
	if err != nil {
		return used{}, err
	}
	began := time.Now()
	if err := do(); err != nil {
		return used{}, err
	}
	took := time.Since(began)
	after, err := programs.CPUTime(pid)
	return used{cpu: after - before, took: took}, err
}

// profiles writes those of the edge while it runs.
func (b *bench) profiles() ground.Profiles {
	if b.edge == nil {
		return ground.Profiles{}
	}
	return ground.Profiles{Folder: b.settings.Profile, Size: b.figures.Ingresses, Admin: adminAddress, Process: b.edge.Process}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
