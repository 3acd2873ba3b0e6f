package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strconv"
)

const (
	// stormClients, or tlsStormClients, open connections at the same time, each the next one when it has its response. A
	// handshake takes the clients so long that more of them would only wait for each other.
	stormClients    = 1000
	tlsStormClients = 250
	// maxStorm bounds the connections of one load.
	maxStorm = 2_000_000
	// establishedConnections have establishedRate requests per second each while the storm lasts.
	establishedConnections = 8
	establishedRate        = 100
)

// runStorm opens connections from many clients at once. The percentiles are those of requests on a few
// connections that last: a proxy must not neglect them for new ones. Another process makes these requests,
// because in this one they would wait for the clients of the storm.
func runStorm(ctx context.Context, o order) (outcome, error) {
	type ended struct {
		outcome
		err error
	}
	during := make(chan ended, 1)
	go func() {
		saw, err := h2load(ctx, o, "--h1", "-c", strconv.Itoa(establishedConnections), "-m", "1", "--rps", strconv.Itoa(establishedRate))
		during <- ended{saw, err}
	}()
	result, err := runConnections(ctx, o, o.scenario.connections, maxStorm, func() tls.ClientSessionCache { return nil })
	established := <-during
	if err := errors.Join(err, established.err); err != nil {
		return outcome{}, err
	}
	result.p50, result.p99 = established.p50, established.p99
	if result.errors += established.errors; established.errors > 0 {
		result.reason = fmt.Sprintf("%d requests on established connections failed", established.errors)
	}
	return result, nil
}
