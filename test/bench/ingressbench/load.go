package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

const (
	// loadConnections is the width of the load.
	loadConnections = 64
	// loadHosts is the most hosts that are asked for. Each has connections of its
	// own to its endpoint, and so has each endpoint of the wide route.
	loadHosts = 5000
)

// question is a request, and where its answer has to come from; any endpoint
// will do when that is not valid.
type question struct {
	host string
	want netip.Addr
}

// load compares three kinds of requests: for one host with one endpoint, for one
// host with as many endpoints as there are others, and for all hosts at random.
// The first shows what a request costs when all that it needs is in the caches
// of the processor. The others use as many connections, and differ in the number
// of routes and backends. They take turns, so that a disturbance does not meet
// one alone.
func (b *bench) load(ctx context.Context) (err error) {
	hosts := min(b.world.apps, loadHosts, openFiles()/4)
	if err := b.world.createWide(ctx, hosts); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.world.deleteWide(ctx)) }()
	c, ask := b.edge.asker(false)
	defer c.close()
	if _, err := b.until(ctx, wideHost, ask, func(got answer) bool { return got.status == 200 }); err != nil {
		return err
	}
	of := func(app int) question { return question{hostOf(app), endpointOf(app, b.world.moved[app])} }
	step := b.world.apps / hosts
	f := b.figures
	turns := []struct {
		name   string
		choose func() question
		into   *float64
		all    []float64
	}{
		{name: "load-one", choose: func() question { return of(0) }, into: &f.RequestOne},
		{name: "load-wide", choose: func() question { return question{host: wideHost} }, into: &f.RequestWide},
		{name: "load-all", choose: func() question { return of(step * rand.IntN(hosts)) }, into: &f.RequestAll},
	}
	// Warming up makes the connections to all endpoints.
	var next atomic.Int64
	each := func() question { return of(step * (int(next.Add(1)) % hosts)) }
	for _, choose := range []func() question{each, turns[1].choose} {
		if _, err := b.drive(ctx, choose, max(b.settings.duration, time.Duration(hosts)*time.Millisecond)); err != nil {
			return err
		}
	}
	for range b.settings.rounds {
		for i := range turns {
			turn := &turns[i]
			finish := b.profile(turn.name, b.settings.duration)
			micros, err := b.drive(ctx, turn.choose, b.settings.duration)
			if err := errors.Join(err, finish()); err != nil {
				return err
			}
			turn.all = append(turn.all, micros)
		}
	}
	for _, turn := range turns {
		*turn.into = median(turn.all)
	}
	b.tell("load: %.1f µs CPU per request for one host, %.1f µs for one with %d endpoints, %.1f µs for %d hosts",
		f.RequestOne, f.RequestWide, hosts, f.RequestAll, hosts)
	return nil
}

// openFiles is how many a process may have open.
func openFiles() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 1024
	}
	return int(min(limit.Max, 1<<20))
}

// drive asks on many connections for some time, and gives the microseconds of
// CPU time that a request cost the edge.
func (b *bench) drive(ctx context.Context, choose func() question, length time.Duration) (float64, error) {
	var requests atomic.Int64
	u, err := b.measure(func() error {
		until := time.Now().Add(length)
		group, ctx := errgroup.WithContext(ctx)
		for range loadConnections {
			group.Go(func() error {
				count, err := askUntil(ctx, choose, until)
				requests.Add(count)
				return err
			})
		}
		return group.Wait()
	})
	if err != nil {
		return 0, err
	}
	return float64(u.cpu.Microseconds()) / float64(max(1, requests.Load())), nil
}

// askUntil asks on one connection. Every answer must be right.
func askUntil(ctx context.Context, choose func() question, until time.Time) (count int64, err error) {
	c := newClient(plainAddress)
	defer c.close()
	for ctx.Err() == nil && time.Now().Before(until) {
		q := choose()
		got, err := c.ask(ctx, q.host)
		switch {
		case err != nil:
			return count, err
		case got.status != 200 || q.want.IsValid() && got.backend != q.want:
			return count, fmt.Errorf("%s answers %d from %s, want %s", q.host, got.status, got.backend, q.want)
		}
		count++
	}
	return count, context.Cause(ctx)
}
