// Command platformbench measures `slipway platform` with many runtimes.
//
//	go run ./test/bench/platformbench -runtimes 100,1000 -applications 100
//
// For each number of runtimes it starts a platform in a private network, and as
// many simulated runtimes in this process. A simulated runtime has no cluster,
// and the tunnel, the reporter and the heartbeats of an agent: two tunnels, a
// connection for its calls, and a spool on disk. The phases:
//
//   - register: every runtime registers;
//   - connect: all tunnels open and all Applications are reported at once;
//   - requests: one request through the tunnel of every runtime;
//   - steady: heartbeats alone, for a while;
//   - console: a watch as the console opens it: until the first Applications
//     come and until all have; then changes of single Applications, from the
//     reporter to the watch;
//   - restart: the platform is killed and started again after a pause; from its
//     start until all tunnels are back, and until a request through the tunnel of
//     every runtime has succeeded.
//
// CPU time and memory are those of the platform. This program shares the machine
// with it, and has the other end of every connection.
//
// Every phase verifies the state that it waits for, or fails. The program leaves
// neither processes nor files behind. It ends with exit code 1 when something
// fails or a goal is missed.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"slipway.dev/slipway/test/bench/ground"
)

const name = "platformbench"

func main() {
	ground.Program[*settings]{Name: name, Parse: parseSettings, Longest: (*settings).longest, StartsProcesses: true, PrivateNetwork: true, Measure: measureAll}.Main()
}

// measureAll measures all sizes and prints the report. An interrupted run still
// reports the phases that it has measured.
func measureAll(ctx context.Context, s *settings, out io.Writer) error {
	result := newReport(s)
	fmt.Fprintln(out, ground.Heading(result.Machine, result.Setting))
	var err error
	for _, size := range s.runtimes {
		f := &figures{Runtimes: size, Applications: size * s.applications}
		result.Sizes = append(result.Sizes, f)
		if err = measure(ctx, s, f, out); err != nil {
			err = fmt.Errorf("%d runtimes: %w", size, err)
			break
		}
	}
	decisions := result.decisions()
	ground.PrintDecisions(out, decisions)
	return ground.Finish(err, s.jsonFile, result, decisions)
}

// measure runs the phases with a new platform.
func measure(ctx context.Context, s *settings, f *figures, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", name+"-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	p, err := startPlatform(ctx, s, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.process.End(nil)) }()
	b := &bench{settings: s, platform: p, figures: f, out: out, dir: dir}
	defer b.stop()
	if err := b.run(ctx); err != nil {
		return fmt.Errorf("%w; the platform's output: %s", err, p.process.Output())
	}
	return nil
}
