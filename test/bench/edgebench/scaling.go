package main

import (
	"fmt"
	"io"
	"runtime"
	"text/tabwriter"

	"golang.org/x/sys/unix"
)

// scalingScenarios are those of -scaling unless others are chosen.
const scalingScenarios = "h1,tls-h2"

// scaled returns each proxy twice: on one CPU, and on two.
func scaled(peers []peer) []peer {
	var both []peer
	for _, p := range peers {
		for cpus := 1; cpus <= 2; cpus++ {
			p.cpus = cpus
			both = append(both, p)
		}
	}
	return both
}

// onCPUs calls start with this thread restricted to the first CPUs that it may use; 0
// restricts nothing. A process that it starts inherits that, with all of its children.
func onCPUs(count int, start func() error) error {
	if count == 0 {
		return start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return fmt.Errorf("read the CPUs of this process: %w", err)
	}
	if all.Count() < count {
		return &skipError{fmt.Sprintf("it needs %d CPUs, and this machine has %d", count, all.Count())}
	}
	var some unix.CPUSet
	for cpu := 0; some.Count() < count; cpu++ {
		if all.IsSet(cpu) {
			some.Set(cpu)
		}
	}
	if err := unix.SchedSetaffinity(0, &some); err != nil {
		return fmt.Errorf("restrict a proxy to %d CPUs: %w", count, err)
	}
	defer func() { _ = unix.SchedSetaffinity(0, &all) }() // what was allowed before is allowed
	return start()
}

// printScaling writes a row for each proxy that was measured on one CPU and on two.
func (s *scenarioResult) printScaling(out io.Writer) {
	if len(s.Proxies) == 0 || s.Proxies[0].CPUs == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s: 2 CPUs in relation to 1; median of %d (least..most)\n", s.Name, s.rounds())
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "proxy\treq/s\t\t%s/req\t\t\n", s.costUnit())
	for i := 1; i < len(s.Proxies); i += 2 {
		one, two := s.Proxies[i-1], s.Proxies[i]
		faster := two.ratios(one, func(s sample) float64 { return s.Rate })
		if len(faster) == 0 {
			fmt.Fprintf(table, "%s\t-\t\t-\t\t\n", two.Name)
			continue
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t\n", two.Name, spreadOf(faster, ratio.value).text(), spreadOf(two.ratios(one, costOf), ratio.value).text())
	}
	table.Flush()
}
