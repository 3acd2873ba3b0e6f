package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"slipway.dev/slipway/internal/programs"
)

// endpointBackends is how many backends share the endpoints of a scenario. Each proxy
// keeps connections to every endpoint, and nginx twice as many because its workers
// share none: one backend would need more open files than many systems allow.
const endpointBackends = 2

// endpointAddresses returns loopback addresses with one port for all of them: an
// endpoint of a cluster has an address of its own too.
func endpointAddresses(count int, port string) []string {
	const perNetwork = 250
	addresses := make([]string, count)
	for i := range addresses {
		addresses[i] = net.JoinHostPort(fmt.Sprintf("127.1.%d.%d", i/perNetwork, i%perNetwork+1), port)
	}
	return addresses
}

// startEndpoints starts the backends of a scenario with an endpoint for each route.
// The endpoint of route i is address i. The caller must stop them.
func startEndpoints(ctx context.Context, dir string, count int) (stop func(), addresses []string, err error) {
	var running []*programs.Process
	stop = func() {
		for _, process := range running {
			_ = process.End(nil) // nothing depends on how it ends
		}
	}
	free, err := freeAddresses(1)
	if err != nil {
		return stop, nil, err
	}
	_, port, _ := strings.Cut(free[0], ":")
	addresses = endpointAddresses(count, port)
	for i := range endpointBackends {
		part := addresses[i*count/endpointBackends : (i+1)*count/endpointBackends]
		own, err := openDir(dir, "endpoints-")
		if err != nil {
			return stop, nil, err
		}
		process, err := startBackend(ctx, own, part)
		if err != nil {
			return stop, nil, errors.Join(err, errors.New("it listens at an address for each endpoint: raise the limit of open files (ulimit -n)"))
		}
		running = append(running, process)
	}
	return stop, addresses, nil
}
