package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"

	"slipway.dev/slipway/test/bench/ground"
)

// report holds all results of a run. It is the JSON file as well.
type report struct {
	Began   time.Time `json:"began"`
	Machine string    `json:"machine"`
	Setting string    `json:"setting"`
	Direct  figures   `json:"direct"`
	Tunnel  figures   `json:"tunnel"`
	// CPURatio is the CPU time of a request through the tunnel divided by that
	// of a direct one. It is the figure to compare between machines.
	CPURatio float64 `json:"cpuRatio"`
}

// newReport combines the medians of both paths with a description of the
// machine and the settings, which a result is worthless without.
func newReport(s settings, direct, tunnel figures) *report {
	secure := "without TLS"
	if s.secure {
		secure = "with TLS"
	}
	return &report{
		Began:   time.Now().UTC().Truncate(time.Second),
		Machine: fmt.Sprintf("%s/%s, %d processors, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version()),
		Setting: fmt.Sprintf("%d MB, %d streams, %d requests, medians of %d rounds, %s", s.megabytes, s.streams, s.requests, s.rounds, secure),
		Direct:  direct, Tunnel: tunnel, CPURatio: tunnel.CPU / direct.CPU,
	}
}

// medianOf returns the median of each figure by itself, so the figures of the
// result may come from different rounds. For an even number of rounds it takes
// the upper of the two middle values.
func medianOf(rounds []figures) figures {
	of := func(pick func(figures) float64) float64 {
		values := make([]float64, 0, len(rounds))
		for _, round := range rounds {
			values = append(values, pick(round))
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	return figures{
		OneStream:   of(func(f figures) float64 { return f.OneStream }),
		ManyStreams: of(func(f figures) float64 { return f.ManyStreams }),
		P50:         of(func(f figures) float64 { return f.P50 }),
		P99:         of(func(f figures) float64 { return f.P99 }),
		PerSecond:   of(func(f figures) float64 { return f.PerSecond }),
		CPU:         of(func(f figures) float64 { return f.CPU }),
	}
}

// deliver prints the table and, if file is not empty, writes the report to it
// as JSON.
func (r *report) deliver(out io.Writer, file string) error {
	fmt.Fprintf(out, "%s\n%s\n\n", r.Machine, r.Setting)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\tdirect\ttunnel\ttunnel against direct\t")
	row := func(name, unit string, direct, tunnel float64, against string) {
		fmt.Fprintf(table, "%s\t%.0f %s\t%.0f %s\t%s\t\n", name, direct, unit, tunnel, unit, against)
	}
	d, t := r.Direct, r.Tunnel
	row("one stream", "MB/s", d.OneStream, t.OneStream, times(t.OneStream, d.OneStream))
	row("many streams", "MB/s", d.ManyStreams, t.ManyStreams, times(t.ManyStreams, d.ManyStreams))
	row("latency p50", "µs", d.P50, t.P50, fmt.Sprintf("%+.0f µs", t.P50-d.P50))
	row("latency p99", "µs", d.P99, t.P99, fmt.Sprintf("%+.0f µs", t.P99-d.P99))
	row("requests", "/s", d.PerSecond, t.PerSecond, times(t.PerSecond, d.PerSecond))
	row("processor per request", "µs", d.CPU, t.CPU, times(t.CPU, d.CPU))
	if err := table.Flush(); err != nil {
		return err
	}
	return ground.WriteJSON(file, r)
}

// times formats a ratio for the last column of the table.
func times(a, b float64) string { return fmt.Sprintf("%.2f times", a/b) }
