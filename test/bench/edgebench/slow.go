package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// slowReaders read a body of hugeBody each, slowRate bytes per second in slowReads parts.
	slowReaders = 1000
	slowRate    = 64_000
	slowReads   = 4
	// slowWindow is the receive buffer of each: with the kernel's own, which grows to megabytes, the kernel
	// would read in place of the client.
	slowWindow = 64 << 10
	// slowStart bounds the time until all of them read.
	slowStart = 15 * time.Second
)

// slowGroup is the slow readers beside a load.
type slowGroup struct {
	pause    time.Duration
	got      atomic.Int64 // bytes
	stopping atomic.Bool

	mu      sync.Mutex // guards the rest
	conns   []net.Conn
	failed  int64
	failure error
}

// startSlowReaders starts the clients of a scenario with slow readers.
func startSlowReaders(ctx context.Context, o order) (finish func(*sample), err error) {
	return startReaders(ctx, o, slowReaders, time.Second/slowReads)
}

// startReaders starts clients that each read a long body, a part of it after each pause. It returns once each of
// them has read slowReads parts: the buffers on the way have been filled by then.
func startReaders(ctx context.Context, o order, count int, pause time.Duration) (finish func(*sample), err error) {
	g := &slowGroup{pause: pause}
	var readers, starting sync.WaitGroup
	starting.Add(count)
	for range count {
		readers.Go(func() {
			err := g.read(ctx, o, sync.OnceFunc(starting.Done))
			if err == nil || g.stopping.Load() {
				return
			}
			g.mu.Lock()
			defer g.mu.Unlock()
			g.failed++
			g.failure = fmt.Errorf("a slow reader: %w", err)
		})
	}
	end := func() {
		g.stopping.Store(true)
		g.mu.Lock()
		for _, conn := range g.conns {
			conn.Close()
		}
		g.mu.Unlock()
		readers.Wait()
	}
	started := make(chan struct{})
	go func() { starting.Wait(); close(started) }()
	limit := time.NewTimer(slowStart)
	defer limit.Stop()
	select {
	case <-started:
	case <-ctx.Done():
		end()
		return nil, ctx.Err()
	case <-limit.C:
		end()
		return nil, fmt.Errorf("%d slow readers did not all get their first bytes within %s", count, slowStart)
	}
	g.got.Store(0)
	began := time.Now()
	return func(into *sample) {
		into.SlowRate = float64(g.got.Load()) / time.Since(began).Seconds() / float64(count)
		end()
		if into.Errors += g.failed; g.failure != nil {
			into.Reason = g.failure.Error()
		}
	}, nil
}

// read is one slow reader, until its connection is closed. It calls started when it has read for a second, or
// failed.
func (g *slowGroup) read(ctx context.Context, o order, started func()) error {
	defer started()
	dialer := &net.Dialer{Timeout: handshakeTime, Control: func(_, _ string, raw syscall.RawConn) (err error) {
		failed := raw.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, slowWindow)
		})
		return errors.Join(failed, err)
	}}
	conn, err := dialer.DialContext(ctx, "tcp", o.site.address)
	if err != nil {
		return err
	}
	defer conn.Close()
	g.mu.Lock()
	g.conns = append(g.conns, conn)
	g.mu.Unlock()
	if g.stopping.Load() {
		return nil // it may have looked at conns before
	}
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", scenario{body: hugeBody}.path(o.site.requested()), o.site.requested().host)
	if err != nil {
		return err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(); _ = response.Body.Close() }() // the rest of the body is not read
	if response.StatusCode != http.StatusOK || response.ContentLength != hugeBody {
		return fmt.Errorf("status %d with %d bytes", response.StatusCode, response.ContentLength)
	}
	pause := time.NewTicker(g.pause)
	defer pause.Stop()
	part := make([]byte, slowRate/slowReads)
	for reads := 1; ; reads++ {
		select {
		case <-ctx.Done():
			return nil
		case <-pause.C:
		}
		n, err := io.ReadFull(response.Body, part)
		g.got.Add(int64(n))
		if err != nil {
			return err
		}
		if reads == slowReads {
			started()
		}
	}
}

// printSlowReaders writes a line for each proxy whose load had slow readers beside it.
func (s *scenarioResult) printSlowReaders(out io.Writer) {
	for _, p := range s.Proxies {
		if len(p.Samples) == 0 || p.Samples[0].SlowRate == 0 {
			continue
		}
		rate := spreadOf(p.Samples, func(s sample) float64 { return s.SlowRate / 1000 })
		fmt.Fprintf(out, "  %s: each slow reader got %.1f kB/s (%.1f..%.1f)\n", p.label(), rate.median, rate.least, rate.most)
	}
}
