package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/test/bench/ground"
)

const (
	// concurrency is the number of concurrent calls of this program.
	concurrency = 16
	// phaseTimeout bounds the wait for a state.
	phaseTimeout = 10 * time.Minute
	look         = 20 * time.Millisecond
)

// bench is one size.
type bench struct {
	settings *settings
	platform *platform
	figures  *figures
	out      io.Writer
	dir      string

	runtimes []*simulated
	cancel   context.CancelFunc
	running  sync.WaitGroup
	failed   chan error
}

// run runs the phases in their order.
func (b *bench) run(ctx context.Context) error {
	for _, phase := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"register", b.register}, {"connect", b.connect}, {"requests", b.requests}, {"steady", b.steady}, {"console", b.console}, {"restart", b.restart},
	} {
		if err := phase.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", phase.name, err)
		}
		select {
		case err := <-b.failed:
			return fmt.Errorf("%s: a runtime failed: %w", phase.name, err)
		default:
		}
	}
	return nil
}

// stop ends the runtimes.
func (b *bench) stop() {
	if b.cancel != nil {
		b.cancel()
	}
	b.running.Wait()
}

// progress prints what a phase has measured.
func (b *bench) progress(format string, args ...any) {
	fmt.Fprintf(b.out, "%d runtimes: %s\n", b.figures.Runtimes, fmt.Sprintf(format, args...))
}

// register registers all runtimes.
func (b *bench) register(ctx context.Context) error {
	b.runtimes = make([]*simulated, b.figures.Runtimes)
	b.failed = make(chan error, len(b.runtimes))
	admin, began := b.platform.runtimes(), time.Now()
	err := b.each(func(i int) (err error) {
		b.runtimes[i], err = register(ctx, admin, fmt.Sprintf("runtime-%04d", i), b.dir, b.settings.applications)
		return err
	})
	b.figures.Register = time.Since(began).Seconds()
	b.progress("registered in %.1f s", b.figures.Register)
	return err
}

// connect starts all runtimes and waits for their tunnels and reports.
func (b *bench) connect(ctx context.Context) error {
	used, _, err := b.platform.usage()
	if err != nil {
		return err
	}
	began := time.Now()
	var running context.Context
	running, b.cancel = context.WithCancel(ctx)
	for _, r := range b.runtimes {
		b.running.Go(func() {
			if err := r.run(running); err != nil {
				b.failed <- err
			}
		})
	}
	if err := b.await(ctx, "tunnels", b.allConnected); err != nil {
		return err
	}
	b.figures.Connect = time.Since(began).Seconds()
	if err := b.await(ctx, "reports", b.allReported); err != nil {
		return err
	}
	b.figures.Report = time.Since(began).Seconds()
	after, memory, err := b.platform.usage()
	if err != nil {
		return err
	}
	b.figures.ReportCPU, b.figures.ReportPeak = (after - used).Seconds(), ground.Megabytes(memory.Most)
	b.progress("all tunnels after %.1f s, all reports after %.1f s; %.1f s of CPU time, at most %.0f MB", b.figures.Connect, b.figures.Report, b.figures.ReportCPU, b.figures.ReportPeak)
	return nil
}

// allConnected fails unless every runtime has all its tunnels.
func (b *bench) allConnected(context.Context) error {
	open := 0
	for _, r := range b.runtimes {
		open += int(r.connected.Load())
	}
	if want := tunnels * len(b.runtimes); open != want {
		return fmt.Errorf("%d of %d tunnels", open, want)
	}
	return nil
}

// allReported fails unless the platform has all Applications.
func (b *bench) allReported(ctx context.Context) error {
	list, err := b.platform.applications().ListApplications(ctx, connect.NewRequest(&platformv1.ListApplicationsRequest{PageSize: 1}))
	if err != nil {
		return err
	}
	if int(list.Msg.GetTotal()) != b.figures.Applications {
		return fmt.Errorf("%d of %d Applications", list.Msg.GetTotal(), b.figures.Applications)
	}
	return nil
}

// requests sends one request through the tunnel of every runtime.
func (b *bench) requests(ctx context.Context) error {
	began := time.Now()
	err := b.each(func(i int) error { return b.request(ctx, b.runtimes[i]) })
	b.figures.Requests = float64(len(b.runtimes)) / time.Since(began).Seconds()
	b.progress("%.0f requests/s through the tunnels", b.figures.Requests)
	return err
}

// request sends a request to a runtime and checks who responds.
func (b *bench) request(ctx context.Context, r *simulated) error {
	to := platformURL + wire.RuntimesPath + r.name + "/app-proxy/slipway.runtime.v1.RuntimeService/GetInfo"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader("{}"))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := b.platform.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	if err == nil && (response.StatusCode != http.StatusOK || string(body) != r.name) {
		err = fmt.Errorf("%s: status %d, %s", r.name, response.StatusCode, body)
	}
	return err
}

// steady measures an interval with heartbeats alone.
func (b *bench) steady(ctx context.Context) error {
	before, _, err := b.platform.usage()
	if err != nil {
		return err
	}
	if err := ground.Wait(ctx, b.settings.steady); err != nil {
		return err
	}
	after, memory, err := b.platform.usage()
	if err != nil {
		return err
	}
	b.figures.SteadyCPU, b.figures.SteadyMemory = (after-before).Seconds()/max(b.settings.steady.Seconds(), 1e-3), ground.Megabytes(memory.Resident)
	b.progress("steady: %.1f %% of a core, %.0f MB", 100*b.figures.SteadyCPU, b.figures.SteadyMemory)
	return b.allConnected(ctx)
}

// restart kills the platform, starts it again after a pause, and waits until
// every runtime is back.
func (b *bench) restart(ctx context.Context) error {
	b.platform.process.Kill()
	err := b.await(ctx, "the end of all tunnels", func(context.Context) error {
		for _, r := range b.runtimes {
			if r.connected.Load() > 0 {
				return errors.New("there are tunnels")
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := ground.Wait(ctx, b.settings.down); err != nil {
		return err
	}
	began := time.Now()
	if err := b.platform.start(ctx); err != nil {
		return err
	}
	b.figures.Ready = time.Since(began).Seconds()
	if err := b.await(ctx, "tunnels", b.allConnected); err != nil {
		return err
	}
	b.figures.Restart = time.Since(began).Seconds()
	cpu, memory, err := b.platform.usage()
	if err != nil {
		return err
	}
	b.figures.RestartCPU, b.figures.RestartPeak = cpu.Seconds(), ground.Megabytes(memory.Most)
	if err := b.each(func(i int) error { return b.request(ctx, b.runtimes[i]) }); err != nil {
		return err
	}
	b.figures.Served = time.Since(began).Seconds()
	b.progress("restart: ready after %.1f s, all tunnels after %.1f s, all served after %.1f s; %.1f s of CPU time, at most %.0f MB",
		b.figures.Ready, b.figures.Restart, b.figures.Served, b.figures.RestartCPU, b.figures.RestartPeak)
	return b.allReported(ctx)
}

// await polls a state while the platform lives.
func (b *bench) await(ctx context.Context, what string, condition func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, phaseTimeout)
	defer cancel()
	poll := func(ctx context.Context) error {
		if err := condition(ctx); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	}
	if b.platform.process.Alive() != nil { // it was killed
		return programs.Await(ctx, poll)
	}
	return b.platform.process.Await(ctx, look, poll)
}

// each calls do for every runtime, with bounded concurrency.
func (b *bench) each(do func(i int) error) error {
	var calls sync.WaitGroup
	slots, errs := make(chan struct{}, concurrency), make(chan error, len(b.runtimes))
	for i := range b.runtimes {
		slots <- struct{}{}
		calls.Go(func() {
			defer func() { <-slots }()
			if err := do(i); err != nil {
				errs <- err
			}
		})
	}
	calls.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}
