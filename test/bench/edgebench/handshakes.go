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
	// handshakeClients connect at the same time.
	handshakeClients = 16
	// maxHandshakes bounds a load.
	maxHandshakes = 20_000
	// handshakeTime bounds one connection, from first to last byte.
	handshakeTime = 5 * time.Second
)

// runHandshakes makes a new TLS connection for each request. It is its own load
// generator because wrk resumes sessions, and then there is no key exchange to
// measure.
func runHandshakes(ctx context.Context, o order) (outcome, error) {
	var mu sync.Mutex
	var times []time.Duration
	var failures int64
	var firstFailure error
	began := time.Now()
	var clients sync.WaitGroup
	for range handshakeClients {
		clients.Go(func() {
			for range maxHandshakes / handshakeClients {
				start := time.Now()
				if start.Sub(began) >= o.length || ctx.Err() != nil {
					return
				}
				// What has begun is finished: the end must not look like a fault.
				err := handshakeOnce(ctx, o)
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

// handshakeOnce connects, asks once and reads the answer to its end.
func handshakeOnce(ctx context.Context, o order) error {
	host := o.site.asked().host
	dialer := tls.Dialer{
		NetDialer: &net.Dialer{Timeout: handshakeTime},
		Config:    &tls.Config{ServerName: host, RootCAs: o.site.tls.trust, NextProtos: []string{"http/1.1"}},
	}
	conn, err := dialer.DialContext(ctx, "tcp", o.site.address)
	if err != nil {
		return err
	}
	defer conn.Close()
	// Without this the kernel keeps the port of a connection for a minute, and
	// they would run out. All of the answer is here by then.
	if err := conn.(*tls.Conn).NetConn().(*net.TCPConn).SetLinger(0); err != nil {
		return err
	}
	if err := conn.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", o.scenario.path(o.site.asked()), host); err != nil {
		return err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	n, err := io.Copy(io.Discard, io.LimitReader(response.Body, largeBody+1))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK || n != int64(o.scenario.body) {
		return fmt.Errorf("status %d with %d bytes", response.StatusCode, n)
	}
	return nil
}
