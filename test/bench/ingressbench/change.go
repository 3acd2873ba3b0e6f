package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/test/bench/ground"
)

// change is one prepared change of the cluster. Preparing it apart from making
// it keeps the preparation out of the measured time.
type change struct {
	host string
	// make writes the change and returns the resource version of the object, by
	// which the watch identifies its event.
	make func(context.Context) (version string, err error)
	// live reports whether a response shows that the edge serves the change.
	live func(response) bool
}

// kindOfChange generates changes of one kind. next prepares one for an
// application; look opens the watch that sees their events.
type kindOfChange struct {
	name string
	next func(context.Context, int) (change, error)
	look func(context.Context) (*sight, error)
}

// created returns changes that create an Ingress for an existing Service.
func (b *bench) created() kindOfChange {
	w := b.world
	return kindOfChange{
		name: "create",
		next: func(ctx context.Context, app int) (change, error) {
			ingress, host, err := w.newIngress(ctx, app)
			return change{
				host: host,
				make: func(ctx context.Context) (string, error) { return w.put(ctx, ingress) },
				live: func(got response) bool { return got.backend == endpointOf(app, w.moved[app]) },
			}, err
		},
		look: func(ctx context.Context) (*sight, error) {
			if w.gateway {
				return look(ctx, w.httpRoutes(""))
			}
			return look(ctx, w.Client.NetworkingV1().Ingresses(""))
		},
	}
}

// movedEndpoint returns changes that move a Service to the other one of its two
// endpoints. next records the move before it is made, so changes must be made
// in the order in which they were prepared.
func (b *bench) movedEndpoint() kindOfChange {
	w := b.world
	return kindOfChange{
		name: "endpoint",
		next: func(_ context.Context, app int) (change, error) {
			moved := !w.moved[app]
			w.moved[app] = moved
			return change{
				host: hostOf(app),
				make: func(ctx context.Context) (string, error) {
					slice := newSlice(appName(app), appName(app), appLabels(app), endpointOf(app, moved))
					made, err := w.Client.DiscoveryV1().EndpointSlices(namespaceOf(app)).Update(ctx, slice, metav1.UpdateOptions{})
					return made.GetResourceVersion(), err
				},
				live: func(got response) bool { return got.backend == endpointOf(app, moved) },
			}, nil
		},
		look: func(ctx context.Context) (*sight, error) { return look(ctx, w.Client.DiscoveryV1().EndpointSlices("")) },
	}
}

// delaysOfCreate measures how long new Ingresses take to be served, and deletes
// them.
func (b *bench) delaysOfCreate(ctx context.Context) (err error) {
	if b.figures.Create, err = b.delays(ctx, b.created()); err != nil {
		return err
	}
	return b.clear(ctx)
}

// delaysOfEndpoint measures how long endpoint changes take to be routed.
func (b *bench) delaysOfEndpoint(ctx context.Context) (err error) {
	b.figures.Endpoint, err = b.delays(ctx, b.movedEndpoint())
	return err
}

// delays makes changes at the rate of the settings and measures the delay of
// each. Only one change is in progress at a time.
func (b *bench) delays(ctx context.Context, kind kindOfChange) (delayFigures, error) {
	seen, err := kind.look(ctx)
	if err != nil {
		return delayFigures{}, err
	}
	defer seen.close()
	c, request := b.edge.querier(b.settings.tls)
	defer c.close()
	before, err := b.world.apiCosts(ctx)
	if err != nil {
		return delayFigures{}, err
	}
	var all []delay
	pace := time.NewTicker(b.settings.pace())
	defer pace.Stop()
	for n := range b.settings.samples {
		next, err := kind.next(ctx, n%b.world.apps)
		if err != nil {
			return delayFigures{}, err
		}
		if _, err := request(ctx, next.host); err != nil && !b.settings.tls { // opens the connection outside of the measured time
			return delayFigures{}, err
		}
		one, err := b.delay(ctx, next, request, seen)
		if err != nil {
			return delayFigures{}, fmt.Errorf("change %d: %w", n, err)
		}
		all = append(all, one)
		select {
		case <-pace.C:
		case <-ctx.Done():
			return delayFigures{}, context.Cause(ctx)
		}
	}
	figures := delayFiguresOf(all)
	b.report("%s: live %s (%d samples)", kind.name, figures.text(), len(all))
	return figures, b.reportAPICosts(ctx, kind.name, before, len(all))
}

// delay is how long one change took.
type delay struct {
	fromCall, fromSight time.Duration // until it was live
	// call is until the API server has responded: the part of fromCall that is not the
	// edge's, though a change can be live a little earlier.
	call time.Duration
}

// delayFiguresOf returns the spreads of delays.
func delayFiguresOf(all []delay) delayFigures {
	return delayFigures{
		FromCall:  spreadOf(all, func(d delay) time.Duration { return d.fromCall }),
		FromSight: spreadOf(all, func(d delay) time.Duration { return d.fromSight }),
		Call:      spreadOf(all, func(d delay) time.Duration { return d.call }),
	}
}

// spreadOf returns the spread of one of the times of delays.
func spreadOf(delays []delay, of func(delay) time.Duration) ground.Spread {
	times := make([]time.Duration, len(delays))
	for i, d := range delays {
		times[i] = of(d)
	}
	return ground.SpreadOf(times)
}

// delay makes one change and sends requests until it is live. Requests start
// together with the call, because the change can be live before the call
// returns. A change that is served before the benchmark's own watch has its
// event counts as zero from the event.
func (b *bench) delay(
	ctx context.Context, next change, request func(context.Context, string) (response, error), seen *sight,
) (delay, error) {
	type made struct {
		version string
		err     error
		took    time.Duration
	}
	returned := make(chan made, 1)
	began := time.Now()
	go func() {
		version, err := next.make(ctx)
		returned <- made{version, err, time.Since(began)}
	}()
	live, err := b.liveAt(ctx, next, request)
	// The call's result is taken even if until failed: its error is then the
	// likely cause.
	change := <-returned
	if change.err != nil {
		return delay{}, change.err
	}
	if err != nil {
		return delay{}, err
	}
	sight, err := seen.when(ctx, change.version)
	return delay{live.Sub(began), max(0, live.Sub(sight)), change.took}, err
}

// liveAt sends a request every lookPeriod until a response shows the change, and returns
// the time of that response. Unlike until it does not wait longer after a response that
// took long: the wait would count as delay of the edge. It sleeps in the kernel, because a
// timer of the Go runtime waits for at least a millisecond in an idle process.
func (b *bench) liveAt(ctx context.Context, next change, request func(context.Context, string) (response, error)) (time.Time, error) {
	for {
		got, err := request(ctx, next.host)
		now := time.Now()
		switch {
		case err == nil && next.live(got):
			return now, nil
		case ctx.Err() != nil:
			return time.Time{}, errors.Join(fmt.Errorf("%w: %s responds with %d from %s", context.Cause(ctx), next.host, got.status, got.backend), err)
		}
		if err := b.edge.Alive(); err != nil {
			return time.Time{}, err
		}
		pause := syscall.NsecToTimespec(lookPeriod.Nanoseconds())
		_ = syscall.Nanosleep(&pause, nil) // a signal ends it early, and the next request comes sooner
	}
}

// work measures the CPU time per change without concurrent requests, which
// would be counted as well.
func (b *bench) work(ctx context.Context) (err error) {
	if b.figures.CreateCPU, err = b.workOf(ctx, b.created()); err != nil {
		return err
	}
	if err := b.clear(ctx); err != nil {
		return err
	}
	b.figures.EndpointCPU, err = b.workOf(ctx, b.movedEndpoint())
	return err
}

// workOf returns the CPU time per change of one kind in milliseconds, without
// the idle share.
func (b *bench) workOf(ctx context.Context, kind kindOfChange) (float64, error) {
	// Changes are prepared first, because preparing may create Secrets, which
	// cost the edge CPU time too.
	changes := make([]change, b.settings.samples)
	for n := range changes {
		var err error
		if changes[n], err = kind.next(ctx, n%b.world.apps); err != nil {
			return 0, err
		}
	}
	c, request := b.edge.querier(b.settings.tls)
	defer c.close()
	finish := b.profiles().CPU(ctx, kind.name, time.Duration(len(changes))*b.settings.pace())
	u, err := measure(b.edge.PID(), func() error {
		pace := time.NewTicker(b.settings.pace())
		defer pace.Stop()
		for _, next := range changes {
			if _, err := next.make(ctx); err != nil {
				return err
			}
			select {
			case <-pace.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		// The interval ends when the last change is live, so that its work is
		// included.
		last := changes[len(changes)-1]
		_, err := b.until(ctx, last.host, request, last.live)
		return err
	})
	if err != nil {
		return 0, err
	}
	each := milliseconds(b.beyondIdle(u)) / float64(len(changes))
	b.report("%s: %.2f ms CPU per change", kind.name, each)
	return each, finish()
}

// clear deletes the Ingresses that a phase created and waits until the edge
// returns 404 for a sample of them. The next phase then starts with the
// original routes.
func (b *bench) clear(ctx context.Context) error {
	if err := b.world.dropExtra(ctx); err != nil {
		return err
	}
	c, request := b.edge.querier(false)
	defer c.close()
	for n := range min(b.world.extra, namespaces) { // the newest of each namespace
		host := extraHost(b.world.extra - 1 - n)
		if _, err := b.until(ctx, host, request, func(got response) bool { return got.status == 404 }); err != nil {
			return err
		}
	}
	return nil
}
