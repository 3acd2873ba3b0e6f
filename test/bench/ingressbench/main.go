// Command ingressbench measures how `slipway edge` follows a cluster with
// thousands of Ingresses.
//
//	go run ./test/bench/ingressbench -sizes 1000,5000 -tls
//
// It starts a real API server without a node, in a private network where every
// pod address is local, and fills it: each Ingress has its own host, one path,
// and a Service with one EndpointSlice whose single endpoint has a real
// listener. For each number of Ingresses it starts an edge and measures it in
// these phases, one after the other:
//
//   - cold: from the start of the process until it is ready and serves a sample
//     of random hosts;
//   - idle: memory, and the CPU time without changes or requests;
//   - create: from the call that creates an Ingress until its host is served;
//   - endpoint: from the call that moves a Service to another endpoint until
//     responses come from there;
//   - work: both again, without requests, for the CPU time of one change;
//   - load: CPU time of a request, of all hosts at random beside one of them,
//     and beside one host with as many endpoints;
//   - shared: the same for as many hosts that all have one endpoint;
//   - beside, with -gateway: CPU time of a request for HTTPRoutes, and for equal
//     Ingresses on the same edge, in turns;
//   - listeners, with -gateway: from the call that adds a listener to one of many
//     Gateways, or removes it, until it is open or closed. All other Gateways get
//     requests meanwhile, and none may fail.
//
// With -peer nginx, an nginx with as many hosts and endpoints gets these loads
// too, on the same addresses, which shows how much of the cost is the kernel's.
//
// A watch of the benchmark separates the delay of the API server from that of
// the edge: delays are reported from the call, and from the time at which that
// watch received the event. Beside them is the time of the call itself, by which
// the first can be judged.
//
// Every response must come from the right backend, or the run fails. The
// program leaves neither processes nor files behind, and no packet leaves the
// private network. It ends with exit code 1 when something fails or a goal is
// missed. On a shared machine, delays depend on the other load; CPU times and
// memory stay valid.
//
// See decision 0024 in docs/decisions: the cost of routes is measured where all
// else is equal.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"slipway.dev/slipway/test/bench/ground"
)

// name is the name in messages and the client name in the API server's logs.
const name = "ingressbench"

func main() {
	ground.Program[*settings]{Name: name, Parse: parseSettings, Longest: (*settings).longest, StartsProcesses: true, PrivateNetwork: true, Measure: execute}.Main()
}

// execute measures all sizes and prints the report. An interrupted run still
// reports the sizes that it has measured.
func execute(ctx context.Context, s *settings, out io.Writer) error {
	result, err := measureAll(ctx, s, out)
	result.print(out)
	return ground.Finish(err, s.JSONFile, result, result.decisions())
}

// measureAll grows one cluster through the sizes and measures a new edge at
// each. With an error, the report contains the results until then, including
// those of the size that failed.
func measureAll(ctx context.Context, s *settings, out io.Writer) (_ *report, err error) {
	result := newReport(s)
	fmt.Fprintln(out, ground.Heading(result.Machine, result.Setting))
	dir, err := os.MkdirTemp("", name+"-")
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	backend, err := startBackend()
	if err != nil {
		return result, err
	}
	defer backend.stop()
	cluster, err := ground.StartCluster(ctx, s.Devcluster, dir, name, fmt.Sprintf("--fsync=%t", s.fsync))
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	w, err := newWorld(ctx, cluster, s)
	if err != nil {
		return result, err
	}
	empty := 0.0
	if s.gateway {
		if empty, err = measureEmpty(ctx, s, cluster, dir); err != nil {
			return result, fmt.Errorf("an edge without routes: %w", err)
		}
	}
	for _, size := range s.sizes {
		b := &bench{settings: s, world: w, dir: dir, out: out, figures: &figures{Ingresses: size, Empty: empty}}
		err := b.run(ctx)
		result.Sizes = append(result.Sizes, b.figures)
		if err != nil {
			return result, fmt.Errorf("%d Ingresses: %w", size, err)
		}
	}
	return result, nil
}
