package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"text/tabwriter"
	"time"

	"slipway.dev/slipway/internal/programs"
)

const (
	// maxIdle bounds the idle connections that can be asked for.
	maxIdle = 1_000_000
	// perSource is how many of them have the same address: each has local ports of its own.
	perSource = 10_000
	// activeConnections have a request each, all the time.
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
	files, err := raiseFiles(max(s.idle, 2*activeConnections) + otherFiles)
	if err != nil {
		return err
	}
	into.plan(s.idle, files)
	b.connections = max(into.Idle, into.Active)
	if into.Idle < into.IdleRequested {
		fmt.Fprintf(b.out, "  %d of %d idle connections: the limit of open files is %d\n", into.Idle, into.IdleRequested, files)
	}
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
			b.withProxy(ctx, p, false, func(c *contestant) error { return result.measurePlain(ctx, c, into.Idle, into.Active) }),
			b.withProxy(ctx, p, true, func(c *contestant) (err error) {
				_, result.IdleTLS, err = measureIdle(ctx, c, into.Idle)
				return err
			}),
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

// plan sets the numbers of connections that a limit of open files allows. An idle connection takes one in the proxy and
// one here, and an active one two in the proxy.
func (r *report) plan(idle, files int) {
	r.IdleRequested, r.Idle = idle, max(1, min(idle, files-otherFiles))
	r.Active = max(1, min(activeConnections, (files-otherFiles)/2))
}

// raiseFiles raises the limit of open files of this process and of those that it starts, and
// returns what it is then. What the hard limit does not allow needs the right to raise that.
func raiseFiles(want int) (int, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, err
	}
	if limit.Max < uint64(want) && syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: uint64(want), Max: uint64(want)}) == nil {
		return want, nil
	}
	// A limit that is set explicitly is that of the children too.
	limit.Cur = limit.Max
	return int(min(limit.Max, maxIdle+otherFiles)), syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
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
func (m *memoryResult) measurePlain(ctx context.Context, c *contestant, idle, active int) (err error) {
	if m.Rest, m.Idle, err = measureIdle(ctx, c, idle); err != nil {
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

// measureIdle returns the memory at rest, and that of each of some connections which have
// served one request.
func measureIdle(ctx context.Context, c *contestant, count int) (rest, each int64, err error) {
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
	var next atomic.Int64
	var group sync.WaitGroup
	for range openers {
		group.Go(func() {
			for i := int(next.Add(1)); i <= count; i = int(next.Add(1)) {
				conn, err := openIdle(ctx, c.site, i/perSource)
				// The state of TLS would be memory of this process.
				if secure, ok := conn.(*tls.Conn); ok {
					conn = secure.NetConn()
				}
				mu.Lock()
				if err == nil {
					conns = append(conns, conn)
				}
				failure = cmp.Or(failure, err)
				failed := failure != nil
				mu.Unlock()
				if failed {
					return
				}
			}
		})
	}
	if group.Wait(); failure != nil {
		return 0, 0, fmt.Errorf("after %d idle connections: %w", len(conns), failure)
	}
	full, err := programs.WithChildren(c.process.PID(), programs.ResidentMemory)
	for _, conn := range conns {
		if err == nil && isClosed(conn) {
			err = errors.New("the proxy closed idle connections")
		}
	}
	return rest, (full - rest) / int64(len(conns)), err
}

// isClosed reports whether the other end has closed a connection. Tickets of TLS sessions may
// be there to be read.
func isClosed(conn net.Conn) bool {
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return true
	}
	var n int
	failed := raw.Control(func(fd uintptr) {
		n, _, err = syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	})
	return failed != nil || n <= 0 && !errors.Is(err, syscall.EAGAIN)
}

// openIdle opens a connection from one of several addresses and serves one request on it.
func openIdle(ctx context.Context, at *site, source int) (net.Conn, error) {
	from := &net.TCPAddr{IP: net.IPv4(127, 0, byte(source/250), byte(source%250+1))}
	conn, err := (&net.Dialer{Timeout: handshakeTime, LocalAddr: from}).DialContext(ctx, "tcp", at.address)
	if err != nil {
		return nil, err
	}
	// A reset in place of an orderly close leaves the port free.
	err = conn.(*net.TCPConn).SetLinger(0)
	if at.tls != nil {
		conn = tls.Client(conn, &tls.Config{ServerName: at.requested().host, RootCAs: at.tls.trust, NextProtos: []string{"http/1.1"}})
	}
	if err = errors.Join(err, requestItem(at, conn, bufio.NewReaderSize(conn, 1024))); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// requestItem sends one request on a connection and reads the response, whose body is small.
func requestItem(at *site, conn net.Conn, reader *bufio.Reader) error {
	if err := conn.SetDeadline(time.Now().Add(echoTime)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(conn, "GET /item HTTP/1.1\r\nHost: %s\r\n\r\n", at.requested().host); err != nil {
		return err
	}
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, largeBody))
	if err == nil && (response.StatusCode != http.StatusOK || len(body) != smallBody) {
		err = fmt.Errorf("status %d with %d bytes", response.StatusCode, len(body))
	}
	return err
}

// printMemory writes a row for each proxy.
func (r *report) printMemory(out io.Writer) {
	if len(r.Memory) == 0 {
		return
	}
	fmt.Fprintf(out, "\nresident memory; %d idle connections, of %d requested\n", r.Idle, r.IdleRequested)
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "proxy\tat rest\tidle connection\tidle TLS connection\t%d active\t\n", r.Active)
	for _, m := range r.Memory {
		fmt.Fprintf(table, "%s\t%.0f MB\t%.1f KiB\t%.1f KiB\t%.0f MB\t\n",
			m.Name, float64(m.Rest)/1e6, float64(m.Idle)/1024, float64(m.IdleTLS)/1024, float64(m.Active)/1e6)
	}
	table.Flush()
	for _, m := range r.Memory {
		if m.Failure != "" {
			fmt.Fprintf(out, "  %s: %s\n", m.Name, m.Failure)
		}
	}
}
