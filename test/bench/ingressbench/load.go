package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"slipway.dev/slipway/test/bench/ground"
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

// turn is one kind of load, and what it cost in all rounds. Against other loads,
// it cost so many times as much.
type turn struct {
	name    string
	choose  func() question
	into    *float64
	against map[*turn]*float64
	cost    cost
}

// cost is the processor time that requests took.
type cost struct {
	cpu      time.Duration
	requests int64
}

func (c cost) plus(more cost) cost { return cost{c.cpu + more.cpu, c.requests + more.requests} }

// micros are the microseconds for one request.
func (c cost) micros() float64 {
	return float64(c.cpu.Nanoseconds()) / 1e3 / float64(max(1, c.requests))
}

// load compares three kinds of requests: for one host with one endpoint, for one
// host with as many endpoints as there are others, and for all hosts at random.
// The first shows what a request costs when all that it needs is in the caches
// of the processor. The others use as many connections, and differ in the number
// of routes and backends.
func (b *bench) load(ctx context.Context) (err error) {
	hosts := b.world.loadHosts()
	// Warming up makes the connections to all endpoints.
	if err := b.warmUp(ctx, b.edge.PID(), b.world.inTurn()); err != nil {
		return err
	}
	m, err := ground.ReadMemory(b.edge.PID())
	if err != nil {
		return err
	}
	f := b.figures
	f.InUse = megabytes(m.Resident)
	b.tell("in use: RSS %.0f MB after requests to %d hosts with an endpoint each", f.InUse, hosts)
	if err := b.world.createWide(ctx, hosts); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.world.deleteWide(ctx)) }()
	if err := b.answers(ctx, wideHost); err != nil {
		return err
	}
	if err := b.warmUp(ctx, b.edge.PID(), wide); err != nil {
		return err
	}
	if err := b.takeTurns(ctx, b.edge.PID(), b.world.endpointTurns(&f.Request)); err != nil {
		return err
	}
	b.tell("load: %.1f µs CPU per request for one host, %.1f µs for one with %d endpoints, %.1f µs for %d hosts",
		f.Request.One, f.Request.Wide, hosts, f.Request.All, hosts)
	return nil
}

// endpointTurns are the loads for one host, for one with all endpoints and for all
// hosts.
func (w *world) endpointTurns(into *requestFigures) []*turn {
	one := &turn{name: "load-one", choose: w.one(), into: &into.One}
	wide := &turn{name: "load-wide", choose: wide, into: &into.Wide}
	all := &turn{name: "load-all", choose: w.atRandom(), into: &into.All}
	wide.against = map[*turn]*float64{one: &into.WideTimes}
	all.against = map[*turn]*float64{one: &into.AllTimes, wide: &into.RoutesTimes}
	return []*turn{one, wide, all}
}

// loadHosts is how many hosts are asked for.
func (w *world) loadHosts() int { return min(w.apps, loadHosts, openFiles()/4) }

// of is the question for an application.
func (w *world) of(app int) question { return question{hostOf(app), endpointOf(app, w.moved[app])} }

// one chooses the same application always.
func (w *world) one() func() question { return func() question { return w.of(0) } }

// wide chooses the host with many endpoints.
func wide() question { return question{host: wideHost} }

// atRandom chooses one of the applications that are asked for.
func (w *world) atRandom() func() question {
	hosts := w.loadHosts()
	step := w.apps / hosts
	return func() question { return w.of(step * rand.IntN(hosts)) }
}

// inTurn chooses one after the other.
func (w *world) inTurn() func() question {
	hosts := w.loadHosts()
	step := w.apps / hosts
	var next atomic.Int64
	return func() question { return w.of(step * (int(next.Add(1)) % hosts)) }
}

// answers waits until a host that is new is served.
func (b *bench) answers(ctx context.Context, host string) error {
	c, ask := b.edge.asker(false)
	defer c.close()
	_, err := b.until(ctx, host, ask, func(got answer) bool { return got.status == 200 })
	return err
}

// warmUp asks for long enough that every host is asked for.
func (b *bench) warmUp(ctx context.Context, pid int, loads ...func() question) error {
	length := max(b.settings.duration, time.Duration(b.world.loadHosts())*time.Millisecond)
	for _, choose := range loads {
		if _, err := drive(ctx, pid, choose, length); err != nil {
			return err
		}
	}
	return nil
}

// takeTurns lets loads take turns, many and short ones, so that a disturbance does
// not meet one alone, and gives what a request of each cost in all of them. Each
// second round goes backwards: on a machine that gets slower, nobody is always
// later.
func (b *bench) takeTurns(ctx context.Context, pid int, turns []*turn) error {
	for round := range b.settings.rounds {
		order := slices.Clone(turns)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, turn := range order {
			finish := b.profile(turn.name, b.settings.duration)
			spent, err := drive(ctx, pid, turn.choose, b.settings.duration)
			if err := errors.Join(err, finish()); err != nil {
				return err
			}
			turn.cost = turn.cost.plus(spent)
		}
	}
	for _, turn := range turns {
		*turn.into = turn.cost.micros()
		for other, times := range turn.against {
			*times = turn.cost.micros() / other.cost.micros()
		}
	}
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

// drive asks on many connections for some time, and gives what that cost a
// process.
func drive(ctx context.Context, pid int, choose func() question, length time.Duration) (cost, error) {
	var requests atomic.Int64
	u, err := measure(pid, func() error {
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
	return cost{u.cpu, requests.Load()}, err
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
