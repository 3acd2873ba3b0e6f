// Command edgebench compares the edge with nginx, HAProxy and Caddy.
//
//	go run ./test/bench/edgebench -only slipway,nginx -scenario h1
//
// It starts one backend, and then all proxies with the same task: the
// same routes to the same backend, persistent connections on both sides,
// X-Forwarded-For and X-Forwarded-Proto set, no access log. Each proxy gets the
// same load, a short warm-up and then short turns that count.
//
// The primary figure is the CPU time per request of all processes of the proxy:
// on a shared machine, requests per second depend more on the other load than
// on the proxy. All proxies of a scenario run at the same time and take turns of
// two seconds, so that a disturbance affects all of them alike. Each turn is
// compared with that of nginx in the same round, and the report has the median of
// the rounds.
//
// With -instructions each proxy runs in QEMU's user mode, and the figure is the
// number of instructions that it executes per request: two builds of the edge
// can then be compared on a busy machine.
//
// With -syscalls it counts the system calls per request, and with -memory it
// measures memory in place of load.
//
// Before it measures a proxy, it has verified a correct response from it.
// Errors under load are counted and end the program with exit code 1. It leaves
// neither processes nor files behind and uses loopback addresses only. If a
// program is missing, it fails with the name of the package to install.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"slipway.dev/slipway/test/bench/ground"
)

func main() {
	ground.Program[*settings]{Name: "edgebench", Parse: parseSettings, Longest: (*settings).longest, StartsProcesses: true, Measure: measure}.Main()
}

// measure runs all scenarios and prints the report. An interrupted run still
// reports the scenarios that it has measured.
func measure(ctx context.Context, s *settings, out io.Writer) error {
	tools, err := findTools(ctx, s)
	if err != nil {
		return err
	}
	result, err := measureAll(ctx, s, tools, out)
	if result != nil {
		err = errors.Join(err, result.deliver(out, s.jsonFile))
	}
	if err == nil && result.failed() {
		err = errors.New("a proxy failed or gave errors; see above")
	}
	return err
}

// measureAll runs every scenario in a temporary directory and removes it. With
// an error, the report contains the scenarios measured until then; it is nil
// only if nothing could start.
func measureAll(ctx context.Context, s *settings, found *tools, out io.Writer) (*report, error) {
	dir, err := openDir("", "edgebench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	who, err := newIdentities(dir)
	if err != nil {
		return nil, err
	}
	var count *counter
	if s.instructions {
		if count, err = newCounter(ctx, dir); err != nil {
			return nil, err
		}
		count.blocks = s.profile != ""
	}
	result := newReport(s, found)
	fmt.Fprintln(out, result.heading())
	if s.memory {
		return result, measureMemory(ctx, s, result, &bench{settings: s, identities: who, dir: dir, out: out})
	}
	for _, sc := range s.scenarios {
		b := &bench{settings: s, scenario: sc, identities: who, counter: count, dir: dir, out: out}
		measured, err := b.run(ctx)
		result.Scenarios = append(result.Scenarios, measured)
		result.Took = time.Since(result.Began).Round(time.Second).String()
		if err != nil {
			return result, fmt.Errorf("scenario %s: %w", sc.name, err)
		}
	}
	return result, nil
}
