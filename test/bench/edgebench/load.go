package main

import (
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

// The width of the load, the same for every proxy.
const (
	wrkConnections = 64
	h2Connections  = 8
	h2Streams      = 8
)

// loadGrace is how long a load generator may take beyond its time.
const loadGrace = 20 * time.Second

// order is one load to be made.
type order struct {
	scenario scenario
	site     *site
	length   time.Duration
}

// outcome is what a load generator saw.
type outcome struct {
	requests int64
	errors   int64
	reason   string  // of one of the errors, where it is known
	rate     float64 // requests per second
	p50, p99 time.Duration
}

// loader makes a load and reports it.
type loader func(ctx context.Context, o order) (outcome, error)

// target is an address for a load generator. It says localhost, because they
// take the name for TLS from here; the Host header is given besides.
func (o order) target() string {
	_, port, _ := strings.Cut(o.site.address, ":")
	return o.site.scheme() + "://localhost:" + port + o.scenario.path(o.site.asked())
}

// runWrk loads with HTTP/1.1, on connections that are kept.
func runWrk(ctx context.Context, o order) (outcome, error) {
	args := []string{"-t1", fmt.Sprintf("-c%d", wrkConnections), fmt.Sprintf("-d%ds", int(o.length.Seconds())), "--latency"}
	if o.scenario.spread {
		script, routes, err := writeWrkScript(o)
		if err != nil {
			return outcome{}, err
		}
		args = append(args, "-s", script, o.target(), "--", routes)
	} else {
		args = append(args, "-H", "Host: "+o.site.asked().host, o.target())
	}
	text, err := runTool(ctx, o.length, "wrk", args...)
	if err != nil {
		return outcome{}, err
	}
	return parseWrk(text)
}

// wrkScript asks for all routes, in an order that is random and the same for
// every proxy. The requests are put together before the load begins.
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

// writeWrkScript writes the script and the list of routes that it reads.
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

// runH2load loads with HTTP/2, several streams on each connection. It does not
// report percentiles, but writes every request down.
func runH2load(ctx context.Context, o order) (outcome, error) {
	log := filepath.Join(o.site.dir, "h2load.log")
	if err := os.Remove(log); err != nil && !errors.Is(err, os.ErrNotExist) {
		return outcome{}, err
	}
	text, err := runTool(ctx, o.length, "h2load", "-t1",
		"-c", strconv.Itoa(h2Connections), "-m", strconv.Itoa(h2Streams),
		"-D", strconv.Itoa(int(o.length.Seconds())),
		"-H", ":authority: "+o.site.asked().host, "--log-file="+log, o.target())
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

// runTool runs a load generator to its end and returns what it printed.
func runTool(ctx context.Context, length time.Duration, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, length+loadGrace)
	defer cancel()
	command := exec.CommandContext(ctx, name, args...)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	command.WaitDelay = time.Second
	var complaint strings.Builder
	command.Stderr = &complaint
	text, err := command.Output()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(complaint.String()))
	}
	return string(text), nil
}
