package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Concurrency of the load, the same for every proxy. Both protocols have 64
// requests in flight.
const (
	wrkConnections = 64
	h2Connections  = 8
	h2Streams      = 8
)

// loadGrace is the extra time after which a load generator that has not ended
// is killed.
const loadGrace = 20 * time.Second

// order describes one load: what to request, from which proxy, for how long.
type order struct {
	scenario scenario
	site     *site
	length   time.Duration
	rate     float64 // requests per second, where they are fixed
}

// outcome is the result of one load as its generator reports it.
type outcome struct {
	requests int64
	errors   int64
	reason   string  // of one of the errors, where it is known
	rate     float64 // requests per second
	p50, p99 time.Duration
}

// loader generates a load and returns its outcome. It fails if no request
// succeeded, because such a load has no percentiles.
type loader func(ctx context.Context, o order) (outcome, error)

// target returns the URL for a load generator. The host is localhost, because
// generators derive SNI and address from the URL; the Host header is set
// separately.
func (o order) target() string {
	_, port, _ := strings.Cut(o.site.address, ":")
	return o.site.scheme() + "://localhost:" + port + o.scenario.path(o.site.requested())
}

// runWrk generates HTTP/1.1 load on persistent connections. One thread suffices
// for the generator and leaves the rest of the machine to the proxy.
func runWrk(ctx context.Context, o order) (outcome, error) {
	args := []string{"-t1", fmt.Sprintf("-c%d", cmp.Or(o.scenario.connections, wrkConnections)), fmt.Sprintf("-d%ds", int(o.length.Seconds())), "--latency"}
	// The script sets host and path of each request itself; the target then
	// provides the address only.
	if o.scenario.spread {
		script, routes, err := writeWrkScript(o)
		if err != nil {
			return outcome{}, err
		}
		args = append(args, "-s", script, o.target(), "--", routes)
	} else {
		args = append(args, "-H", "Host: "+o.site.requested().host, o.target())
	}
	text, err := runTool(ctx, o.length, "wrk", args...)
	if err != nil {
		return outcome{}, err
	}
	return parseWrk(text)
}

// wrkScript requests all routes in random order. The fixed seed makes the order
// the same for every proxy, and the requests are formatted before the load
// starts, so that the generator stays cheap.
const wrkScript = `local requests = {}
local function add(host, path)
	requests[#requests + 1] = "GET " .. path .. " HTTP/1.1\r\nHost: " .. host .. "\r\n\r\n"
end
function init(args)
	math.randomseed(1)
	for line in io.lines(args[1]) do
		add(line:match("(%S+) (%S+)"))
	end
end
function request()
	return requests[math.random(#requests)]
end
`

// writeWrkScript writes the script and the list of routes that it reads, and
// returns the paths of both.
func writeWrkScript(o order) (script, routes string, err error) {
	var b strings.Builder
	for _, key := range o.site.routes {
		b.WriteString(key.host + " " + o.scenario.path(key) + "\n")
	}
	if routes, err = o.site.write("routes.txt", b.String()); err != nil {
		return "", "", err
	}
	script, err = o.site.write("routes.lua", wrkScript)
	return script, routes, err
}

// runH2load generates HTTP/2 load with several streams per connection.
func runH2load(ctx context.Context, o order) (outcome, error) {
	args := []string{"-c", strconv.Itoa(h2Connections), "-m", strconv.Itoa(h2Streams)}
	if o.scenario.grpc() {
		file, err := o.site.write("message", grpcMessage)
		if err != nil {
			return outcome{}, err
		}
		args = append(args, "-d", file, "-H", "content-type: application/grpc", "-H", "te: trailers")
	}
	return h2load(ctx, o, args...)
}

// runPaced generates HTTP/1.1 load at a fixed rate. wrk cannot: its clients wait for
// one response before they send the next request.
func runPaced(ctx context.Context, o order) (outcome, error) {
	each := strconv.FormatFloat(max(o.rate/wrkConnections, 1), 'f', 0, 64)
	return h2load(ctx, o, "--h1", "-c", strconv.Itoa(wrkConnections), "-m", "1", "--rps", each)
}

// h2load prints no percentiles but logs every request, so they are computed from
// its log.
func h2load(ctx context.Context, o order, args ...string) (outcome, error) {
	log := filepath.Join(o.site.dir, "h2load.log")
	// h2load appends to its log, which still has the requests of the turn before.
	if err := os.Remove(log); err != nil && !errors.Is(err, os.ErrNotExist) {
		return outcome{}, err
	}
	args = append(args, "-t1", "-D", strconv.Itoa(int(o.length.Seconds())), "--log-file="+log,
		"-H", ":authority: "+o.site.requested().host, o.target())
	text, err := runTool(ctx, o.length, "h2load", args...)
	if err != nil {
		return outcome{}, err
	}
	result, err := parseH2load(text)
	if err != nil {
		return outcome{}, err
	}
	file, err := os.Open(log)
	if err != nil {
		return outcome{}, err
	}
	defer file.Close()
	times, err := parseH2loadTimes(file)
	if err != nil {
		return outcome{}, fmt.Errorf("%s: %w", log, err)
	}
	result.p50, result.p99 = percentile(times, 50), percentile(times, 99)
	return result, nil
}

// runTool runs a load generator to its end and returns its standard output. On
// a timeout or an interrupt the error is that of the context.
func runTool(ctx context.Context, length time.Duration, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, length+loadGrace)
	defer cancel()
	command := exec.CommandContext(ctx, name, args...)
	// The process group keeps Ctrl-C on the terminal from the tool, and
	// Pdeathsig ends the tool with this program.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	command.WaitDelay = time.Second
	var complaint strings.Builder
	command.Stderr = &complaint
	text, err := command.Output()
	// A killed tool exits with an error of its own, which would hide the
	// timeout.
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(complaint.String()))
	}
	return string(text), nil
}
