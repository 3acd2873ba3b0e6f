package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"slipway.dev/slipway/internal/programs"
)

const (
	// idleConnections are opened to measure the memory of one; activeConnections
	// have a request each, all the time.
	idleConnections   = 5_000
	activeConnections = 10_000
	// otherFiles are the open files of a proxy besides those of connections.
	otherFiles = 1000
	// openers open the idle connections.
	openers = 32
	// activeTime is how long the load with active ones lasts.
	activeTime = 5 * time.Second
)

// memoryResult is the memory of one proxy, in bytes: resident memory of all its
// processes. A page that several of them share counts once for each.
type memoryResult struct {
	Name string `json:"name"`
	// Rest is after the start, with one route and a few requests served.
	Rest int64 `json:"rest"`
	// Idle and IdleTLS are for each connection that has served one request.
	Idle    int64 `json:"idleConnection"`
	IdleTLS int64 `json:"idleTLSConnection"`
	// Active is the most under load.
	Active  int64  `json:"active"`
	Failure string `json:"failure,omitempty"`
}

// measureMemory measures one proxy after the other, each as a process that has
// done nothing else.
func measureMemory(ctx context.Context, s *settings, into *report, b *bench) error {
	// An active connection has two open files in the proxy.
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	into.Active = min(activeConnections, int(limit.Max-otherFiles)/2)
	dir, err := openDir(b.dir, "backend-")
	if err != nil {
		return err
	}
	stop, addresses, err := scenario{}.backend(ctx, dir)
	defer stop()
	if err != nil {
		return err
	}
	b.backends = addresses
	for _, p := range s.peers {
		result := &memoryResult{Name: p.name}
		err := errors.Join(
			b.withProxy(ctx, p, false, func(c *contestant) error { return result.measurePlain(ctx, c, into.Active) }),
			b.withProxy(ctx, p, true, func(c *contestant) (err error) { _, result.IdleTLS, err = measureIdle(ctx, c); return err }),
		)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			result.Failure = err.Error()
		}
		into.Memory = append(into.Memory, result)
		fmt.Fprintf(b.out, "  %s measured %s\n", p.name, result.Failure)
	}
	return nil
}

// withProxy starts a proxy for the time of a measurement.
func (b *bench) withProxy(ctx context.Context, p peer, secure bool, measure func(*contestant) error) error {
	b.scenario = scenario{body: smallBody, proto: "HTTP/1.1", tls: secure, load: runWrk}
	c := &contestant{peer: p}
	defer c.stop()
	if err := b.start(ctx, c); err != nil {
		return err
	}
	return measure(c)
}

// measurePlain measures a proxy without TLS.
func (m *memoryResult) measurePlain(ctx context.Context, c *contestant, active int) (err error) {
	if m.Rest, m.Idle, err = measureIdle(ctx, c); err != nil {
		return err
	}
	done := make(chan error, 1)
	o := order{scenario: scenario{body: smallBody, connections: active}, site: c.site, length: activeTime}
	go func() {
		_, err := runWrk(ctx, o)
		done <- err
	}()
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-look.C:
			now, err := programs.WithChildren(c.process.PID(), programs.ResidentMemory)
			if err != nil {
				return errors.Join(err, <-done)
			}
			m.Active = max(m.Active, now)
		}
	}
}

// measureIdle returns the memory at rest, and that of each connection which has
// served one request.
func measureIdle(ctx context.Context, c *contestant) (rest, each int64, err error) {
	if rest, err = programs.WithChildren(c.process.PID(), programs.ResidentMemory); err != nil {
		return 0, 0, err
	}
	// mu guards conns and failure.
	var mu sync.Mutex
	var conns []net.Conn
	var failure error
	defer func() {
		for _, conn := range conns {
			conn.Close()
		}
	}()
	var group sync.WaitGroup
	for range openers {
		group.Go(func() {
			for range idleConnections / openers {
				conn, err := openIdle(ctx, c.site)
				mu.Lock()
				if err == nil {
					conns = append(conns, conn)
				}
				failure = errors.Join(failure, err)
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	if group.Wait(); failure != nil {
		return 0, 0, failure
	}
	full, err := programs.WithChildren(c.process.PID(), programs.ResidentMemory)
	return rest, (full - rest) / int64(len(conns)), err
}

// openIdle opens a connection and serves one request on it.
func openIdle(ctx context.Context, at *site) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: handshakeTime}).DialContext(ctx, "tcp", at.address)
	if err != nil {
		return nil, err
	}
	// A reset in place of an orderly close leaves the port free.
	err = conn.(*net.TCPConn).SetLinger(0)
	if at.tls != nil {
		conn = tls.Client(conn, &tls.Config{ServerName: at.requested().host, RootCAs: at.tls.trust, NextProtos: []string{"http/1.1"}})
	}
	err = errors.Join(err, conn.SetDeadline(time.Now().Add(echoTime)))
	if err == nil {
		_, err = fmt.Fprintf(conn, "GET /item HTTP/1.1\r\nHost: %s\r\n\r\n", at.requested().host)
	}
	if err == nil {
		err = readWhole(conn)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// readWhole reads one response with a small body.
func readWhole(conn net.Conn) error {
	response, err := http.ReadResponse(bufio.NewReaderSize(conn, 1024), nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, largeBody))
	if err == nil && len(body) != smallBody {
		err = fmt.Errorf("status %d with %d bytes", response.StatusCode, len(body))
	}
	return err
}

// printMemory writes a row for each proxy.
func (r *report) printMemory(out io.Writer) {
	if len(r.Memory) == 0 {
		return
	}
	fmt.Fprintln(out, "\nresident memory")
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "proxy\tat rest\tidle connection\tidle TLS connection\t%d active\t\n", r.Active)
	for _, m := range r.Memory {
		fmt.Fprintf(table, "%s\t%.0f MB\t%.1f KiB\t%.1f KiB\t%.0f MB\t%s\n",
			m.Name, float64(m.Rest)/1e6, float64(m.Idle)/1024, float64(m.IdleTLS)/1024, float64(m.Active)/1e6, m.Failure)
	}
	table.Flush()
}
