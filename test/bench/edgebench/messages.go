package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// exchanger sends a message and waits for its echo; end closes what it uses.
type exchanger func(ctx context.Context) (send, end func() error, err error)

// runStreams sends messages on streams of gRPC, several of which share a connection.
func runStreams(ctx context.Context, o order) (outcome, error) {
	var conns [h2Connections]*grpc.ClientConn
	for i := range conns {
		conn, err := dialGRPC(o.site)
		if err != nil {
			return outcome{}, err
		}
		defer conn.Close()
		conns[i] = conn
	}
	var next int
	return runMessages(ctx, o, func(ctx context.Context) (send, end func() error, err error) {
		next++
		return openStream(ctx, conns[next%len(conns)])
	})
}

// runWebSockets sends messages on WebSockets.
func runWebSockets(ctx context.Context, o order) (outcome, error) {
	return runMessages(ctx, o, func(ctx context.Context) (send, end func() error, err error) { return openWebSocket(ctx, o.site) })
}

// runMessages sends messages on wrkConnections streams until the time is over, each
// when the echo of the one before has come. A stream whose message fails is not used
// any further.
func runMessages(ctx context.Context, o order, open exchanger) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, o.length+loadGrace)
	defer cancel()
	type opened struct{ send, end func() error }
	var streams []opened
	var failure error
	defer func() {
		for _, s := range streams {
			_ = s.end() // the messages count
		}
	}()
	for range wrkConnections {
		send, end, err := open(ctx)
		if err != nil {
			return outcome{}, fmt.Errorf("%w: %w", errNoRequests, err)
		}
		streams = append(streams, opened{send, end})
	}
	// mu guards times, failures and failure.
	var mu sync.Mutex
	var times []time.Duration
	var failures int64
	began := time.Now()
	var clients sync.WaitGroup
	for _, s := range streams {
		clients.Go(func() {
			var own []time.Duration
			var err error
			for start := began; err == nil && start.Sub(began) < o.length; {
				err = s.send()
				now := time.Now()
				own = append(own, now.Sub(start))
				start = now
			}
			mu.Lock()
			defer mu.Unlock()
			times = append(times, own...)
			if err != nil {
				failures++
				failure = cmp.Or(failure, err)
			}
		})
	}
	clients.Wait()
	took := time.Since(began)
	if int64(len(times)) == failures {
		return outcome{}, errors.Join(errNoRequests, failure)
	}
	result := outcome{
		requests: int64(len(times)), errors: failures, rate: float64(len(times)) / took.Seconds(),
		p50: percentile(times, 50), p99: percentile(times, 99),
	}
	if failure != nil {
		result.reason = failure.Error()
	}
	return result, nil
}
