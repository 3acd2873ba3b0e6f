package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// handshakeClients is the number of concurrent clients.
	handshakeClients = 16
	// maxHandshakes bounds the connections of one load, in equal parts per
	// client.
	maxHandshakes = 20_000
	// handshakeTime bounds dialing with the TLS handshake, and then again the
	// request with its response.
	handshakeTime = 5 * time.Second
)

// runNewConnections opens a new connection for each request, with a full handshake
// where the proxy speaks TLS. It is its own load generator because wrk resumes
// sessions, which leaves out the key exchange that this scenario measures.
func runNewConnections(ctx context.Context, o order) (outcome, error) {
	return runConnections(ctx, o, handshakeClients, maxHandshakes, func() tls.ClientSessionCache { return nil })
}

// runResumed opens a new TLS connection for each request. Each client resumes the
// session of its last one.
func runResumed(ctx context.Context, o order) (outcome, error) {
	return runConnections(ctx, o, handshakeClients, maxHandshakes, func() tls.ClientSessionCache { return tls.NewLRUClientSessionCache(1) })
}

// runConnections opens connections from a number of clients until the time is over, or all have been opened.
func runConnections(ctx context.Context, o order, count, most int, sessions func() tls.ClientSessionCache) (outcome, error) {
	// mu guards times, failures and firstFailure, which all clients write.
	var mu sync.Mutex
	var times []time.Duration
	var failures int64
	var firstFailure error
	began := time.Now()
	var clients sync.WaitGroup
	for range count {
		cache := sessions()
		clients.Go(func() {
			for range most / count {
				start := time.Now()
				// The time is checked between connections only, so a load may
				// exceed its length by one of them.
				if start.Sub(began) >= o.length || ctx.Err() != nil {
					return
				}
				// A request that has started is completed: aborting it at the
				// end of the load would count as an error.
				err := connectOnce(ctx, o, cache)
				mu.Lock()
				times = append(times, time.Since(start))
				if err != nil {
					failures++
					firstFailure = cmp.Or(firstFailure, err)
				}
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	took := time.Since(began)
	if err := ctx.Err(); err != nil {
		return outcome{}, err
	}
	// Percentiles over failures alone would be meaningless.
	if int64(len(times)) == failures {
		return outcome{}, fmt.Errorf("%w: %w", errNoRequests, firstFailure)
	}
	result := outcome{
		requests: int64(len(times)), errors: failures, rate: float64(len(times)) / took.Seconds(),
		p50: percentile(times, 50), p99: percentile(times, 99),
	}
	if firstFailure != nil {
		result.reason = firstFailure.Error()
	}
	return result, nil
}

// connectOnce connects, sends one request and reads the response to its end. Without
// a session cache every handshake is a full one.
func connectOnce(ctx context.Context, o order, sessions tls.ClientSessionCache) error {
	host := o.site.requested().host
	tcp, err := (&net.Dialer{Timeout: handshakeTime}).DialContext(ctx, "tcp", o.site.address)
	if err != nil {
		return err
	}
	conn := tcp
	if o.site.tls != nil {
		conn = tls.Client(tcp, &tls.Config{
			ServerName: host, RootCAs: o.site.tls.trust, NextProtos: []string{"http/1.1"}, ClientSessionCache: sessions,
		})
	}
	defer conn.Close()
	// A reset instead of an orderly close avoids TIME_WAIT: the kernel would
	// keep the port of each connection for a minute and run out of ports. The
	// whole response has been read by then.
	if err := tcp.(*net.TCPConn).SetLinger(0); err != nil {
		return err
	}
	if err := conn.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", o.scenario.path(o.site.requested()), host); err != nil {
		return err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	// One byte more than the largest valid body suffices to detect a longer
	// one.
	n, err := io.Copy(io.Discard, io.LimitReader(response.Body, largeBody+1))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK || n != int64(o.scenario.body) {
		return fmt.Errorf("status %d with %d bytes", response.StatusCode, n)
	}
	return nil
}
