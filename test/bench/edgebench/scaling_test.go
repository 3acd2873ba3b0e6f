package main

import (
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"slipway.dev/slipway/internal/must"
)

// A process that is started on one CPU stays there, and this one has all of its own again.
func TestOnCPUs(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after unix.CPUSet
	must.Do(t, unix.SchedGetaffinity(0, &before))
	command := exec.Command("nproc")
	var out strings.Builder
	command.Stdout = &out
	must.Do(t, onCPUs(1, command.Start))
	must.Do(t, command.Wait())
	must.Do(t, unix.SchedGetaffinity(0, &after))
	if out.String() != "1\n" || before != after {
		t.Errorf("the process has %q CPUs; this one had %d and has %d", out.String(), before.Count(), after.Count())
	}
	if err := onCPUs(before.Count()+1, func() error { return nil }); err == nil {
		t.Error("there are more CPUs than the machine has")
	}
}

// Two CPUs are compared with one of the same proxy in the same round, and each with nginx on as many.
func TestScaling(t *testing.T) {
	s := scenarioResult{Name: "h1", Proxies: []*proxyResult{
		{Name: nginxName, CPUs: 1, Samples: []sample{{Round: 1, Rate: 100, CPUMicros: 10}, {Round: 2, Rate: 200, CPUMicros: 10}}},
		{Name: nginxName, CPUs: 2, Samples: []sample{{Round: 1, Rate: 150, CPUMicros: 11}, {Round: 2, Rate: 350, CPUMicros: 12}}},
		{Name: slipwayName, CPUs: 1, Samples: []sample{{Round: 1, Rate: 100, CPUMicros: 20}}},
		{Name: slipwayName, CPUs: 2, Failure: "it did not start"},
	}}
	var out strings.Builder
	s.printScaling(&out)
	lines := strings.Split(out.String(), "\n")
	if got := strings.Fields(lines[3]); strings.Join(got, " ") != "nginx 1.62 (1.50..1.75) 1.15 (1.10..1.20)" {
		t.Errorf("got %q", got)
	}
	if got := strings.Fields(lines[4]); strings.Join(got, " ") != "slipway - -" {
		t.Errorf("a proxy that failed: got %q", got)
	}
	if got := spreadOf(s.Proxies[2].ratios(s.base(1), costOf), ratio.value); got != (spread{2, 2, 2}) {
		t.Errorf("to nginx on one CPU: got %v", got)
	}
}
