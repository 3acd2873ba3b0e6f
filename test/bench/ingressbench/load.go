package main

import (
	"cmp"
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

	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/bench/ground"
)

const (
	// loadConnections is the number of concurrent client connections.
	loadConnections = 64
	// loadHosts is the maximum number of hosts in a load. The edge keeps
	// connections for each of their endpoints, and as many for the endpoints of
	// the wide route.
	loadHosts = 5000
)

// query is a request and the endpoint that must serve it; any endpoint is
// right if want is not valid.
type query struct {
	host string
	want netip.Addr
}

// turn is one kind of load with the cost of each of its rounds. into receives the cost
// per request, and against the ratio to the cost of other loads.
type turn struct {
	name    string
	at      string // the address that gets it; plainAddress if empty
	choose  func() query
	into    *float64
	against map[*turn]*float64
	rounds  []cost
}

// address returns the address that gets the load.
func (t *turn) address() string { return cmp.Or(t.at, plainAddress) }

// cost returns the cost of all rounds.
func (t *turn) cost() cost {
	var all cost
	for _, round := range t.rounds {
		all = all.plus(round)
	}
	return all
}

// cost is CPU time and the number of requests that it was spent on.
type cost struct {
	cpu      time.Duration
	requests int64
}

// plus adds the cost of another round.
func (c cost) plus(more cost) cost { return cost{c.cpu + more.cpu, c.requests + more.requests} }

// micros returns the CPU time per request in microseconds; zero requests do not
// divide by zero.
func (c cost) micros() float64 {
	return float64(c.cpu.Nanoseconds()) / 1e3 / float64(max(1, c.requests))
}

// load compares three kinds of requests: for one host with one endpoint, for
// one host with as many endpoints as there are other hosts, and for all hosts
// at random. The first is the cost of a request when all its data is in the CPU
// caches. The other two use the same number of connections and differ in the
// number of routes and backends only, so their ratio is the cost of routes.
func (b *bench) load(ctx context.Context) (err error) {
	hosts := b.world.loadHosts()
	// The warm-up opens the connections to all endpoints; memory is read with
	// them in place.
	if err := b.warmUp(ctx, b.edge.PID(), b.world.inTurn()); err != nil {
		return err
	}
	m, err := programs.ReadMemory(b.edge.PID())
	if err != nil {
		return err
	}
	f := b.figures
	f.InUse = ground.Megabytes(m.Resident)
	b.report("in use: RSS %.0f MB after requests to %d hosts with an endpoint each", f.InUse, hosts)
	if err := b.world.createWide(ctx, hosts); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.world.deleteWide(ctx)) }()
	if err := b.responses(ctx, plainAddress, wideHost); err != nil {
		return err
	}
	if err := b.warmUp(ctx, b.edge.PID(), wide); err != nil {
		return err
	}
	if err := b.takeTurns(ctx, b.edge.PID(), b.world.endpointTurns(&f.Request)); err != nil {
		return err
	}
	b.report("load: %.1f µs CPU per request for one host, %.1f µs for one with %d endpoints, %.1f µs for %d hosts",
		f.Request.One, f.Request.Wide, hosts, f.Request.All, hosts)
	return nil
}

// endpointTurns returns the loads for one host, for the host with all endpoints
// and for all hosts. Results go to into.
func (w *world) endpointTurns(into *requestFigures) []*turn {
	one := &turn{name: "load-one", choose: w.one(), into: &into.One}
	wide := &turn{name: "load-wide", choose: wide, into: &into.Wide}
	all := &turn{name: "load-all", choose: w.atRandom(), into: &into.All}
	wide.against = map[*turn]*float64{one: &into.WideTimes}
	all.against = map[*turn]*float64{one: &into.AllTimes, wide: &into.RoutesTimes}
	return []*turn{one, wide, all}
}

// loadHosts returns the number of hosts in a load. It stays at a quarter of the
// limit of open files, because the load of all hosts and that of the wide route
// each keep connections to as many endpoints.
func (w *world) loadHosts() int { return min(w.apps, loadHosts, openFiles()/4) }

// of returns the request for an application, with the endpoint that it has now.
func (w *world) of(app int) query { return query{hostOf(app), endpointOf(app, w.moved[app])} }

// one returns a generator that always selects the first application.
func (w *world) one() func() query { return func() query { return w.of(0) } }

// wide selects the host with many endpoints; each of them is right.
func wide() query { return query{host: wideHost} }

// atRandom returns a generator that selects one of the hosts at random. The
// hosts are spread evenly over all applications.
func (w *world) atRandom() func() query {
	hosts := w.loadHosts()
	step := w.apps / hosts
	return func() query { return w.of(step * rand.IntN(hosts)) }
}

// inTurn returns a generator that cycles through the same hosts, so that a
// warm-up reaches each of them. It is safe for concurrent use.
func (w *world) inTurn() func() query {
	hosts := w.loadHosts()
	step := w.apps / hosts
	var next atomic.Int64
	return func() query { return w.of(step * (int(next.Add(1)) % hosts)) }
}

// responses waits until a newly created host is served with status 200 at an address.
func (b *bench) responses(ctx context.Context, address, host string) error {
	c := newClient(address)
	defer c.close()
	_, err := b.until(ctx, host, c.do, func(got response) bool { return got.status == 200 })
	return err
}

// warmUp runs each load for at least a millisecond per host, without recording
// its cost.
func (b *bench) warmUp(ctx context.Context, pid int, loads ...func() query) error {
	length := max(b.settings.duration, time.Duration(b.world.loadHosts())*time.Millisecond)
	for _, choose := range loads {
		if _, err := drive(ctx, pid, plainAddress, choose, length); err != nil {
			return err
		}
	}
	return nil
}

// takeTurns runs the loads in many short turns, so that a disturbance affects
// all of them alike, and writes the cost per request over all rounds. Every
// second round runs in reverse order: on a machine that gets slower, no load is
// always the later one.
func (b *bench) takeTurns(ctx context.Context, pid int, turns []*turn) error {
	for round := range b.settings.rounds {
		order := slices.Clone(turns)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, turn := range order {
			finish := b.profiles().CPU(ctx, turn.name, b.settings.duration)
			spent, err := drive(ctx, pid, turn.address(), turn.choose, b.settings.duration)
			if err := errors.Join(err, finish()); err != nil {
				return err
			}
			turn.rounds = append(turn.rounds, spent)
		}
	}
	for _, turn := range turns {
		*turn.into = turn.cost().micros()
		for other, times := range turn.against {
			*times = turn.cost().micros() / other.cost().micros()
		}
	}
	return nil
}

// openFiles returns the hard limit of open files of a process, bounded to about
// a million. The fallback is the usual soft limit.
func openFiles() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 1024
	}
	return int(min(limit.Max, 1<<20))
}

// drive sends requests to an address on all connections for the given time and returns
// the cost to the process.
func drive(ctx context.Context, pid int, address string, choose func() query, length time.Duration) (cost, error) {
	var requests atomic.Int64
	u, err := measure(pid, func() error {
		until := time.Now().Add(length)
		group, ctx := errgroup.WithContext(ctx)
		for range loadConnections {
			group.Go(func() error {
				count, err := requestUntil(ctx, address, choose, until)
				requests.Add(count)
				return err
			})
		}
		return group.Wait()
	})
	return cost{u.cpu, requests.Load()}, err
}

// requestUntil sends requests on one connection until the time is over. A wrong
// status or endpoint is an error, which ends the whole load.
func requestUntil(ctx context.Context, address string, choose func() query, until time.Time) (count int64, err error) {
	c := newClient(address)
	defer c.close()
	for ctx.Err() == nil && time.Now().Before(until) {
		q := choose()
		got, err := c.do(ctx, q.host)
		switch {
		case err != nil:
			return count, err
		case got.status != 200 || q.want.IsValid() && got.backend != q.want:
			return count, fmt.Errorf("%s responds with %d from %s, want %s", q.host, got.status, got.backend, q.want)
		}
		count++
	}
	return count, context.Cause(ctx)
}
